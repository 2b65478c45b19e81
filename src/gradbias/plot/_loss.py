"""The loss over time, with what bounds it."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._common import Result, axes, clock, dataset, label_clock, legend, rows, variable
from ._style import BLACK

if TYPE_CHECKING:
    import matplotlib.axes


def loss(
    result: Result,
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    bound: ArrayLike | None = None,
    envelope: tuple[ArrayLike, ArrayLike] | None = None,
    label: str | None = None,
    name: str = "loss",
    **style: Any,
) -> "matplotlib.axes.Axes":
    """Draw the loss over steps or time, on a logarithmic axis.

    Several members (a sweep) are drawn as their median and the range of all of them.

    Args:
        result: a Run, a Study or the Dataset of a sweep.
        ax: where to draw; the current Axes of pyplot if None.
        bound: an upper bound at the saves, drawn dashed in black.
        envelope: (low, high) at the saves, drawn as a band.
        label: for the legend.
        name: the recorded quantity.
        style: passed on to the line (color, linestyle, …).
    """
    data = dataset(result)
    axis = clock(data)
    values = rows(variable(data, name), axis)
    ticks = data[axis].values
    ax = axes(ax)
    (line,) = ax.plot(ticks, _median(values), label=label, **style)
    if values.shape[1] > 1:
        low, high = _range(values)
        ax.fill_between(ticks, low, high, color=line.get_color(), alpha=0.2, lw=0)
    if envelope is not None:
        ax.fill_between(ticks, *envelope, color=BLACK, alpha=0.12, lw=0)
    if bound is not None:
        ax.plot(ticks, bound, "--", color=BLACK, lw=0.8 * line.get_linewidth())
    ax.set_yscale("log")
    ax.set_ylabel(name.replace("_", " "))
    label_clock(ax, axis, ticks)
    legend(ax)
    return ax


def _median(values: np.ndarray) -> np.ndarray:
    return np.ma.filled(np.ma.median(np.ma.masked_invalid(values), axis=1), np.nan)


def _range(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    finite = np.ma.masked_invalid(values)
    return np.ma.filled(finite.min(axis=1), np.nan), np.ma.filled(finite.max(axis=1), np.nan)
