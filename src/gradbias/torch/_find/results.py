"""What a model computes: the tensors of its result, without what it keeps for its next call."""

import dataclasses
from collections.abc import Iterable, Mapping

from torch import Tensor

KEPT = ("past", "cache", "presents", "mems")  # in the names of what is kept for the next call
CACHED_AXES = 3  # keys and values have samples, positions and channels at least


def results(value: object) -> list[Tensor]:
    """The tensors of a model's result, in order.

    Caches of keys and values are left out: by name in dicts, dataclasses and named tuples; in
    plain tuples a tuple of layers, each a tuple of tensors with three axes or more; and objects
    that are no container, such as a `DynamicCache`.
    """
    if isinstance(value, Tensor):
        return [value]
    named = _named(value)
    if named is not None:
        kept = (v for name, v in named if not any(word in str(name) for word in KEPT))
        return _all(kept)
    if isinstance(value, tuple | list):
        return _all(v for v in value if not _is_cache(v))
    return []


def outputs(value: object) -> list[Tensor]:
    """The floating ones."""
    return [t for t in results(value) if t.is_floating_point()]


def _all(values: Iterable[object]) -> list[Tensor]:
    return [tensor for value in values for tensor in results(value)]


def _named(value: object) -> list[tuple[object, object]] | None:
    """Names and values of a result that has names."""
    if isinstance(value, Mapping):
        return list(value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None:
        return list(zip(names, value, strict=True))
    return None


def _is_cache(value: object) -> bool:
    """Is it a tuple of layers, each with its keys and values?"""
    return isinstance(value, tuple | list) and len(value) > 0 and all(map(_is_layer, value))


def _is_layer(value: object) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) > 1
        and all(isinstance(t, Tensor) and t.ndim >= CACHED_AXES for t in value)
    )
