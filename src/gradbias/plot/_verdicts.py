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
    """Draw verdicts as points left or right of their limits.

    Args:
        result: the verdicts of `gb.compare` or of a study.
        ax: where to draw; a new figure of pyplot if None.

    Returns:
        The Axes.
    """
    rows = [v for v in result if np.isfinite(v.error)]
    if ax is None:
        import matplotlib.pyplot as plt

        # A figure of its own, since its height depends on the number of rows.
        height = 1.4 + 0.28 * max(1, len(rows))
        ax = plt.figure(figsize=(6.4, height), layout="constrained").add_subplot()
    for place, verdict in enumerate(reversed(rows)):
        error = max(verdict.error, SMALLEST)
        allowed = max(verdict.allowed, SMALLEST)
        colour = COLOURS[verdict.verdict]
        ax.plot([error, allowed], [place, place], color=colour, lw=1)
        ax.plot(error, place, "o", color=colour)
        ax.plot(allowed, place, "|", color=colour, ms=12, mew=2)
    ax.set_yticks(range(len(rows)), [f"{v.theorem}: {v.quantity}" for v in reversed(rows)])
    ax.set_ylim(-0.6, max(1, len(rows)) - 0.4)
    ax.set_xscale("log")
    ax.set_xlabel("relative error (dot) and what is allowed (bar)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
