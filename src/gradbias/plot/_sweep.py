"""A sweep: mean and standard error over seeds, theory as a line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._common import axes, legend, variable
from ._style import BLACK

if TYPE_CHECKING:
    import matplotlib.axes
    import xarray

LOG_FROM = 20.0  # an axis that spans more than this factor is logarithmic


def sweep(
    result: "xarray.Dataset",
    *,
    y: str,
    x: str | None = None,
    over: str | Sequence[str] = "seed",
    theory: ArrayLike | str | None = None,
    ax: "matplotlib.axes.Axes | None" = None,
    label: str | None = None,
    **style: Any,
) -> "matplotlib.axes.Axes":
    """Draw a quantity of a sweep over one of its axes: mean ± standard error over the others.

    An axis whose values are positive and span more than a factor of 20 is logarithmic.

    Args:
        result: the Dataset of `gb.sweep`.
        y: the quantity; it must have the axes x and `over` only.
        x: the axis; by default the one that is not in `over`.
        over: the axes to average over; those that are not there are ignored.
        theory: values over x, or the name of a variable; a black line.
        ax: where to draw; the current Axes of pyplot if None.
        label: for the legend.
        style: passed on to the markers (color, marker, …).
    """
    array = variable(result, y)
    names = [over] if isinstance(over, str) else list(over)
    names = [name for name in names if name in array.dims]
    x = _axis(array, names) if x is None else x
    ticks = array[x].values
    mean, error = _mean(array, names, x)
    ax = axes(ax)
    kind = {"marker": "o", "capsize": 2, **style}
    ax.errorbar(ticks, mean, error, label=label, **kind)
    if theory is not None:
        line = _mean(variable(result, theory), names, x)[0] if isinstance(theory, str) else theory
        ax.plot(ticks, line, color=BLACK, zorder=3, label="theory")
    ax.set(xlabel=x, ylabel=y.removesuffix("_end").replace("_", " "))
    if _spans_decades(ticks):
        ax.set_xscale("log")
    if _spans_decades(mean[np.isfinite(mean)]):
        ax.set_yscale("log")
    legend(ax)
    return ax


def _spans_decades(ticks: np.ndarray) -> bool:
    numbers = ticks.size and np.issubdtype(ticks.dtype, np.number)
    return bool(numbers and min(ticks) > 0 and max(ticks) > LOG_FROM * min(ticks))


def _axis(array: "xarray.DataArray", over: list[str]) -> str:
    left = [str(dim) for dim in array.dims if dim not in over]
    if len(left) != 1:
        raise ValueError(f"x: {array.name!r} has the axes {left} beside {over}; say which is x")
    return left[0]


def _mean(array: "xarray.DataArray", over: list[str], x: str) -> tuple[np.ndarray, np.ndarray]:
    present = [name for name in over if name in array.dims]
    extra = [str(dim) for dim in array.dims if dim not in present and dim != x]
    if extra or x not in array.dims:
        raise ValueError(
            f"{array.name!r} has the axes {list(array.dims)}; choose values of {extra}"
        )
    count = array.notnull().sum(present)
    error = array.std(present, ddof=1) / np.sqrt(count) if present else 0 * array
    return array.mean(present).values, error.fillna(0.0).values
