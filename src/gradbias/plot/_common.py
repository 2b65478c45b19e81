"""What the plots share: axes to draw on, the data of a result, its clock."""

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import matplotlib.axes
    import xarray

CLOCKS = {"step": "step", "time": "time", "log_time": "log t"}


@runtime_checkable
class RunLike(Protocol):
    """What is drawn of a `gb.Run`."""

    @property
    def data(self) -> "xarray.Dataset": ...
    @property
    def theta(self) -> np.ndarray | None: ...


@runtime_checkable
class StudyLike(Protocol):
    """What is drawn of the Study of `gb.check`."""

    @property
    def run(self) -> RunLike: ...


# What can be drawn. This room knows neither Run nor Study, only what it needs of them.
Result: TypeAlias = "RunLike | StudyLike | xarray.Dataset"


def axes(ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
    """The given Axes, or the current ones of pyplot: notebooks and `plt.show()` show those."""
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise ValueError(f"ax must be a matplotlib Axes, got {type(ax).__name__}")
        return ax
    import matplotlib.pyplot as plt

    if not plt.get_fignums():
        plt.figure(layout="constrained")
    return plt.gca()


def legend(ax: "matplotlib.axes.Axes") -> None:
    """A legend where something has a label."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend()


def dataset(result: Result) -> "xarray.Dataset":
    """The Dataset of a run, a study or a sweep."""
    import xarray

    if isinstance(result, xarray.Dataset):  # first: a sweep over "run" has a coordinate `run`
        return result
    data = getattr(getattr(result, "run", result), "data", None)
    if not isinstance(data, xarray.Dataset):
        raise ValueError(
            "result must be a gb.Run, the Study of gb.check or the Dataset of gb.sweep, got "
            f"{type(result).__name__}"
        )
    return data


def clock(data: "xarray.Dataset") -> str:
    """The axis along which it was recorded."""
    for name in CLOCKS:
        if name in data.dims:
            return name
    raise ValueError(f"result has no axis 'step' or 'time'; its axes are {list(data.dims)}")


def variable(data: "xarray.Dataset", name: str) -> "xarray.DataArray":
    """A recorded quantity; the error says what there is."""
    if name not in data:
        raise ValueError(
            f"{name!r} was not recorded; there are {sorted(map(str, data.data_vars))}. "
            "Add it to the Setup's record="
        )
    return data[name]


def starting(data: "xarray.Dataset", prefix: str) -> "dict[str, xarray.DataArray]":
    """The variables whose names start so, ends of sweeps left out."""
    names = [str(name) for name in data.data_vars if str(name).startswith(prefix)]
    return {name: data[name] for name in names if not name.endswith("_end")}


def rows(array: "xarray.DataArray", axis: str) -> np.ndarray:
    """Values with the clock first and everything else in one second axis."""
    values = array.transpose(axis, ...).values
    return values.reshape(len(values), -1)


def label_clock(ax: "matplotlib.axes.Axes", axis: str, ticks: ArrayLike) -> None:
    """Name the x-axis; logarithmic where the saves are spread over decades."""
    ax.set_xlabel(CLOCKS[axis])
    if spread_over_decades(ticks):
        ax.set_xscale("log")


def spread_over_decades(ticks: ArrayLike) -> bool:
    """Whether equal steps on a linear axis would crowd the first saves into one point."""
    gaps = np.diff(np.asarray(ticks, float))
    gaps = gaps[gaps > 0]
    return bool(len(gaps) > 2 and gaps.max() > 30 * gaps.min())
