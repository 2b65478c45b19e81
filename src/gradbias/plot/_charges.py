"""The charges of a net's symmetries over time."""

from typing import TYPE_CHECKING

import numpy as np

from ._common import Result, axes, clock, dataset, label_clock, rows, starting
from ._style import COLOURS

if TYPE_CHECKING:
    import matplotlib.axes

MOST = 200  # lines of one family: more are a grey block


def charges(
    result: Result, *, ax: "matplotlib.axes.Axes | None" = None, change: bool = False
) -> "matplotlib.axes.Axes":
    """Draw how the charges move: gradient flow keeps them, finite steps and noise do not.

    Args:
        result: a run or sweep that recorded `gb.observe.charges`.
        ax: where to draw; the current Axes of pyplot if None.
        change: draw C − C(0) instead of C.
    """
    data = dataset(result)
    recorded = starting(data, "charges_")
    if not recorded:
        raise ValueError(
            "no charges were recorded: put gb.observe.charges into the Setup's record="
        )
    ax = axes(ax)
    axis = clock(data)
    ticks = data[axis].values
    for number, (name, array) in enumerate(recorded.items()):
        values = rows(array, axis)
        values = values - values[:1] if change else values
        _lines(ax, ticks, values, name.removeprefix("charges_"), COLOURS[number % len(COLOURS)])
    ax.set_ylabel("charge − charge at the start" if change else "charge")
    label_clock(ax, axis, ticks)
    ax.legend()
    return ax


def _lines(
    ax: "matplotlib.axes.Axes", ticks: np.ndarray, values: np.ndarray, name: str, colour: str
) -> None:
    count = values.shape[1]
    shown = values[:, np.linspace(0, count - 1, min(count, MOST)).astype(int)]
    lines = ax.plot(ticks, shown, color=colour, alpha=max(0.15, min(1.0, 4 / count)))
    lines[0].set_label(name if count == 1 else f"{name} ({count})")
