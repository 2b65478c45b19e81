"""Singular values over time, with theory over them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._common import Result, axes, clock, dataset, label_clock, legend, rows, starting, variable
from ._style import BLACK, BLUE

if TYPE_CHECKING:
    import matplotlib.axes
    import xarray


def singular_values(
    result: Result,
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    name: str | None = None,
    theory: ArrayLike | None = None,
    label: str | None = None,
    **style: Any,
) -> "matplotlib.axes.Axes":
    """Draw the singular values of a layer or of the predictor.

    Args:
        result: a run that recorded `gb.observe.singular_values(...)`.
        ax: where to draw; the current Axes of pyplot if None.
        name: the recorded quantity; the first whose name starts with "singular_values" or "sv".
        theory: limits, one for each value (drawn as rings at the end), or an array over the saves
            (drawn dotted).
        label: for the legend.
        style: passed on to the lines.
    """
    data = dataset(result)
    axis = clock(data)
    array = variable(data, name) if name is not None else _first(data)
    ticks = data[axis].values
    values = rows(array, axis)
    ax = axes(ax)
    lines = ax.plot(ticks, values, **{"color": BLUE, **style})
    lines[0].set_label(label)
    if theory is not None:
        _over(ax, ticks, np.asarray(theory, float))
    ax.set_ylabel("singular values")
    label_clock(ax, axis, ticks)
    legend(ax)
    return ax


def _first(data: "xarray.Dataset") -> "xarray.DataArray":
    recorded = {**starting(data, "singular_values"), **starting(data, "sv")}
    if not recorded:
        raise ValueError(
            "no singular values were recorded: put gb.observe.singular_values('W1') into record="
        )
    return next(iter(recorded.values()))


def _over(ax: "matplotlib.axes.Axes", ticks: np.ndarray, theory: np.ndarray) -> None:
    if theory.ndim == 2:
        lines = ax.plot(ticks, theory, ":", color=BLACK, zorder=3)
        lines[0].set_label("theory")
        return
    ends = np.full(len(theory), ticks[-1])
    ax.plot(
        ends, theory, "o", mfc="none", mec=BLACK, clip_on=False, zorder=3, label="predicted limit"
    )
