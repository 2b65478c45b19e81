"""The kernel regime: a diagonal net that stays where it starts."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.units import in_own_unit
from .._problem import LeastSquares, Params
from .._units import single
from ._fits import fits, halves


def kernel_solution(problem: LeastSquares, params: Params | None = None) -> np.ndarray:
    """The predictor of the net linearised at (u0, v0) after gradient descent, (d,).

    Without a start it is the limit u0 = v0 = α → ∞: the fit of least ℓ2 norm. With one, it is the
    fit whose distance to u0² − v0² is least in the metric 1/(u0² + v0²).

    Args:
        problem: with one output.
        params: u and v at the start, (d,) each; or None.
    """
    goal = fits(problem)
    if params is None:
        return goal.V @ goal.b
    u, v = halves(problem.d, params)
    size = max(np.max(np.abs(u)), np.max(np.abs(v))) or 1.0
    root = np.hypot(u / size, v / size)
    theta = (u - v) * (u + v)
    step = np.linalg.lstsq((root[:, None] * goal.V).T, goal.b - goal.V.T @ theta)[0]
    return theta + root * step


def kernel_error(teacher: ArrayLike, n: int) -> float:
    """(1 − n/d)‖w*‖²: the least expected test error E(z·(w − w*))² in the kernel regime.

    Theorem 6.7, for n samples with N(0, 1) entries and any learning rates and stopping time; the
    fit of least ℓ2 norm attains it. There is no factor ½ in this error.

    Args:
        teacher: (d,) the planted w*.
        n: the number of samples.
    """
    w = checks.array("teacher", teacher, ndim=(1,))
    n = checks.integer("n", n, at_least=0)
    w, unit = in_own_unit(w)
    error = max(1 - n / len(w), 0.0) * float(w @ w)
    return single(error, 2 * unit, "kernel_error", "teacher")
