"""The picture of a comparison: every error against what is allowed."""

from typing import Any

import numpy as np

from ._style import BLUE, ORANGE

COLOURS = {"holds": BLUE, "refuted": ORANGE, "inconclusive": "#666666"}
SMALLEST = 1e-17


def verdicts(result: Any, ax: Any = None) -> Any:
    """Draw verdicts as points left or right of their limits; returns the Axes."""
    rows = [v for v in result if np.isfinite(v.error)]
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 1.4 + 0.28 * max(1, len(rows))), layout="constrained")
        ax = figure.subplots()
    for height, verdict in enumerate(reversed(rows)):
        error, allowed = max(verdict.error, SMALLEST), max(verdict.allowed, SMALLEST)
        colour = COLOURS[verdict.verdict]
        ax.plot([error, allowed], [height, height], color=colour, lw=1)
        ax.plot(error, height, "o", color=colour)
        ax.plot(allowed, height, "|", color=colour, ms=12, mew=2)
    ax.set_yticks(range(len(rows)), [f"{v.theorem}: {v.quantity}" for v in reversed(rows)])
    ax.set_xscale("log")
    ax.set_xlabel("relative error (dot) and what is allowed (bar)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
