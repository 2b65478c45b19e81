"""The picture of a comparison: every error against what is allowed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from ._style import BLUE, ORANGE

if TYPE_CHECKING:
    import matplotlib.axes

COLOURS = {"holds": BLUE, "refuted": ORANGE, "inconclusive": "#666666"}
SMALLEST = 1e-17


@runtime_checkable
class Judged(Protocol):
    """A row of a comparison, such as `gb.compare` makes."""

    @property
    def theorem(self) -> str: ...
    @property
    def quantity(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def error(self) -> float: ...
    @property
    def allowed(self) -> float: ...


def verdicts(
    result: Iterable[Judged], ax: "matplotlib.axes.Axes | None" = None
) -> "matplotlib.axes.Axes":
    """Draw verdicts as points left or right of their limits; returns the Axes."""
    rows = [v for v in result if np.isfinite(v.error)]
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 1.4 + 0.28 * max(1, len(rows))), layout="constrained")
        ax = figure.subplots()
    for height, verdict in enumerate(reversed(rows)):
        error = max(verdict.error, SMALLEST)
        allowed = max(verdict.allowed, SMALLEST)
        colour = COLOURS[verdict.verdict]
        ax.plot([error, allowed], [height, height], color=colour, lw=1)
        ax.plot(error, height, "o", color=colour)
        ax.plot(allowed, height, "|", color=colour, ms=12, mew=2)
    ax.set_yticks(range(len(rows)), [f"{v.theorem}: {v.quantity}" for v in reversed(rows)])
    ax.set_xscale("log")
    ax.set_xlabel("relative error (dot) and what is allowed (bar)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
