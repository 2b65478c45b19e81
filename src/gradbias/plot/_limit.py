"""Where it ended against where theory says it ends, coordinate by coordinate."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._common import Result, axes, dataset
from ._style import BLACK, BLUE

if TYPE_CHECKING:
    import matplotlib.axes


def limit(
    result: Result,
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    predicted: ArrayLike | None = None,
    label: str | None = None,
    **style: Any,
) -> "matplotlib.axes.Axes":
    """Draw the measured end point over the predicted one; on the diagonal they agree.

    Args:
        result: the Study of `gb.check`; a Run; or a sweep with `predict=`.
        ax: where to draw; the current Axes of pyplot if None.
        predicted: the predicted end point; by default what the study or sweep holds.
        label: for the legend, before the relative error.
        style: passed on to the points.
    """
    told, measured = _both(result, predicted)
    both = np.isfinite(told) & np.isfinite(measured)
    if not both.any():
        raise ValueError("no end point is both predicted and measured")
    error = np.linalg.norm((told - measured)[both]) / max(np.linalg.norm(told[both]), 1e-300)
    ax = axes(ax)
    words = f"relative error {error:.1e}"
    words = words if label is None else f"{label}: {words}"
    kind = {"marker": "o", "color": BLUE, "ls": "none", "mfc": "none", **style}
    ax.plot(told[both], measured[both], label=words, **kind)
    ax.axline((0, 0), slope=1, color=BLACK, lw=0.7, zorder=0)
    ax.set(xlabel="predicted coordinate of the limit", ylabel="measured coordinate")
    ax.legend()
    return ax


def _both(result: Result, predicted: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    told = np.asarray(_told(result) if predicted is None else predicted, float)
    run = getattr(result, "run", result)
    end = getattr(run, "theta", None)
    if end is None or hasattr(run, "data_vars"):
        data = dataset(result)
        if "theta_end" not in data:
            raise ValueError("result has no end point: a run of a linear net or `theta_end`")
        end = data["theta_end"].values
    measured = np.asarray(end, float)
    if told.size != measured.size:
        raise ValueError(
            f"predicted has the shape {told.shape}, what was measured {measured.shape}"
        )
    return told.ravel(), measured.ravel()


def _told(result: Result) -> ArrayLike:
    for prediction in getattr(result, "predictions", ()):
        if "theta" in prediction.value:
            return prediction.value["theta"]
    for name, array in getattr(result, "data_vars", {}).items():
        if str(name).startswith("theta_predicted"):
            return array.values
    raise ValueError("result holds no predicted end point: give predicted=")
