"""One panel of a paper: what is computed, how it is drawn, and what must be seen in it."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import xarray as xr

if TYPE_CHECKING:
    import matplotlib.animation
    import matplotlib.axes
    import matplotlib.figure

    from ._lab import Lab

# matplotlib is imported when something is drawn.
Animation: TypeAlias = "matplotlib.animation.Animation"
Axes: TypeAlias = "matplotlib.axes.Axes"
Canvas: TypeAlias = "matplotlib.figure.Figure"


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that the picture must show, as a number and where it has to lie.

    Attributes:
        what: the claim in a few words, such as "slope of the distance in the width".
        value: what was measured.
        low: the least value that shows the claim.
        high: the largest.
    """

    what: str
    value: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def holds(self) -> bool:
        """Whether it is seen; NaN is not."""
        return bool(self.low <= self.value <= self.high)

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.4g} ({self.needs})"

    @property
    def needs(self) -> str:
        """Where the value has to lie, in words."""
        if math.isinf(self.low):
            return f"needs ≤ {self.high:.4g}"
        if math.isinf(self.high):
            return f"needs ≥ {self.low:.4g}"
        return f"needs {self.low:.4g} … {self.high:.4g}"


class Settings(Mapping[str, Any]):
    """The numbers of a figure, `s.lr` or `s["lr"]`; `s.key` decides every draw."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"there is no setting {name!r}; there are {list(self._values)}")
        return self._values[name]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Figure:
    """A panel that can be computed, drawn and judged.

    Attributes:
        id: "paper.number", such as "rank1.5a".
        title: at most 60 characters.
        caption: what was predicted, what was measured, whether they agree and, where the paper's
            claim does not hold, what does; formulas in LaTeX between dollars.
        compute: `compute(s, lab)` returns the Dataset that is drawn; `lab.sweep` and
            `lab.simulate` run setups so that an interrupted figure goes on where it was.
        draw: `draw(figure, data, s)` draws on an empty matplotlib Figure.
        seen: `seen(data, s)` returns what must be seen.
        quick: the settings of the default size, seconds long.
        full: what changes at the paper's size.
        default: part of the default set.
        wide: two columns wide.
        height: of the picture, as a part of one column's width.
        frames: `frames(figure, data, s)` returns a matplotlib animation, for GIFs.
    """

    id: str
    title: str
    caption: str
    compute: "Callable[[Settings, Lab], xr.Dataset]"
    draw: Callable[[Canvas, xr.Dataset, Settings], None]
    seen: Callable[[xr.Dataset, Settings], list[Check]]
    quick: Mapping[str, Any]
    full: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    default: bool = False
    wide: bool = False
    height: float = 0.72
    frames: Callable[[Canvas, xr.Dataset, Settings], Animation] | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.full) - set(self.quick))
        if unknown:
            raise ValueError(f"full of {self.id} changes {unknown}, which quick does not have")

    def settings(
        self, full: bool = False, key: int = 0, changes: Mapping[str, Any] | None = None
    ) -> Settings:
        """The numbers to use.

        Args:
            full: the paper's size.
            key: an integer that decides every draw.
            changes: own values of some settings.
        """
        changes = dict(changes or {})
        unknown = sorted(set(changes) - set(self.quick))
        if unknown:
            raise ValueError(f"{self.id} has no setting {unknown}; it has {sorted(self.quick)}")
        return Settings({**self.quick, **(self.full if full else {}), **changes, "key": key})
