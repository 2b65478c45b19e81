"""Where it ended against where theory says it ends, coordinate by coordinate."""

from typing import Any

import numpy as np

from ._common import axes, dataset
from ._style import BLACK, BLUE


def limit(
    result: Any,
    *,
    ax: Any = None,
    predicted: Any = None,
    label: str | None = None,
    **style: Any,
) -> Any:
    """Draw the measured end point over the predicted one; on the diagonal they agree.

    Args:
        result: the Study of `gb.check`; a Run; or a sweep with `predict=`.
        ax: where to draw; new Axes if None.
        predicted: the predicted end point; by default what the study or sweep holds.
        label: for the legend, before the relative error.
        style: passed on to the points.
    """
    ax = axes(ax)
    told, seen = _both(result, predicted)
    both = np.isfinite(told) & np.isfinite(seen)
    if not both.any():
        raise ValueError("no end point is both predicted and measured")
    error = np.linalg.norm((told - seen)[both]) / max(np.linalg.norm(told[both]), 1e-300)
    words = f"relative error {error:.1e}"
    words = words if label is None else f"{label}: {words}"
    kind = {"marker": "o", "color": BLUE, "ls": "none", "mfc": "none", **style}
    ax.plot(told[both], seen[both], label=words, **kind)
    ax.axline((0, 0), slope=1, color=BLACK, lw=0.7, zorder=0)
    ax.set(xlabel="predicted coordinate of the limit", ylabel="measured coordinate")
    ax.legend()
    return ax


def _both(result: Any, predicted: Any) -> tuple[np.ndarray, np.ndarray]:
    told = _told(result) if predicted is None else predicted
    run = getattr(result, "run", result)
    seen = getattr(run, "theta", None)
    if seen is None or hasattr(run, "data_vars"):
        data = dataset(result)
        if "theta_end" not in data:
            raise ValueError("result has no end point: a run of a linear net or `theta_end`")
        seen = data["theta_end"].values
    told, seen = np.asarray(told, float), np.asarray(seen, float)
    if told.size != seen.size:
        raise ValueError(f"predicted has the shape {told.shape}, what was measured {seen.shape}")
    return told.ravel(), seen.ravel()


def _told(result: Any) -> Any:
    for prediction in getattr(result, "predictions", ()):
        if "theta" in prediction.value:
            return prediction.value["theta"]
    if hasattr(result, "data_vars"):
        for name in result.data_vars:
            if str(name).startswith("theta_predicted"):
                return result[name].values
    raise ValueError("result holds no predicted end point: give predicted=")
