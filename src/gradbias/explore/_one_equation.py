"""Two unknowns and one equation: what its scenes share."""

import numpy as np

from ..problems import Regression
from ._scene import State

FAR = 20.0  # beyond every panel


def data_point(s: State, least: float) -> np.ndarray:
    """The inputs x1 and x2, or a refusal: near zero the minima are out of sight."""
    if np.hypot(s["x1"], s["x2"]) < least:
        raise ValueError(f"the data point (x1, x2) must be at least {least} from zero")
    return np.array([s["x1"], s["x2"]])


def minima(problem: Regression) -> np.ndarray:
    """The line of minima: its two ends, (2, 2), a row for each axis."""
    x = np.asarray(problem.X)[0]
    along = np.array([-x[1], x[0]]) / np.linalg.norm(x)
    return np.ravel(problem.min_norm)[:, None] + along[:, None] * np.array([-FAR, FAR])
