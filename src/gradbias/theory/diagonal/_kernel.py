"""The kernel regime: a diagonal net that stays where it starts."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.units import in_own_unit
from ...problems import QuadraticProblem
from .._units import single
from ._problem import halves, target


def kernel_solution(
    problem: QuadraticProblem, u0: ArrayLike | None = None, v0: ArrayLike | None = None
) -> np.ndarray:
    """The predictor of the net linearised at (u0, v0) after gradient descent, (d,).

    Without a start it is the limit u0 = v0 = α → ∞: the fit of least ℓ2 norm. With one, it is the
    fit whose distance to u0² − v0² is least in the metric 1/(u0² + v0²).

    Args:
        problem: with one output.
        u0: (d,) start, or None.
        v0: (d,) start, or None.
    """
    goal = target(problem)
    if u0 is None and v0 is None:
        return goal.V @ goal.b
    if u0 is None or v0 is None:
        raise ValueError("u0 and v0 must be given both or not at all, got only one")
    u, v = halves(problem, u0, v0, ("u0", "v0"))
    size = max(np.max(np.abs(u)), np.max(np.abs(v))) or 1.0
    root, theta = np.hypot(u / size, v / size), (u - v) * (u + v)
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
    w, n = checks.array("teacher", teacher, ndim=(1,)), checks.integer("n", n, at_least=0)
    w, unit = in_own_unit(w)
    error = max(1 - n / len(w), 0.0) * float(w @ w)
    return single(error, 2 * unit, "kernel_error", "teacher")
