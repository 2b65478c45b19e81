"""The points of a sweep: every combination of the values of its axes."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

RESERVED = ("step", "time", "log_time", "status", "stopped_at")


class Grid(NamedTuple):
    """The axes of a sweep; points are numbered with the last axis running fastest."""

    axes: dict[str, list[Any]]

    @classmethod
    def of(cls, over: Mapping[str, Iterable[Any]]) -> "Grid":
        """Read what the user gave as `over`."""
        if not isinstance(over, Mapping) or not over:
            raise ValueError(f"over must be a dict of axes, got {over!r:.80}")
        return cls({name: _values(name, values) for name, values in over.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(map(len, self.axes.values()))

    @property
    def size(self) -> int:
        """The number of points."""
        return int(np.prod(self.shape))

    def point(self, member: int) -> dict[str, Any]:
        """The values at a point, by axis."""
        index = np.unravel_index(member, self.shape)
        return {name: values[i] for (name, values), i in zip(self.axes.items(), index, strict=True)}


def _values(name: str, values: Iterable[Any]) -> list[Any]:
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
        raise ValueError(f"over: {name!r} cannot be the name of an axis")
    try:
        values = values if isinstance(values, str | np.ndarray | list) else list(values)
        array = np.asarray(values)
    except (TypeError, ValueError):
        array = np.asarray(None)
    mixed = array.dtype.kind == "U" and not all(isinstance(v, str) for v in values)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iufbU" or mixed:
        raise ValueError(
            f"over[{name!r}] must be a list of numbers or of strings, got {values!r:.80}"
        )
    return array.tolist()
