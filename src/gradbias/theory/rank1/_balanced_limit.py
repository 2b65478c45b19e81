"""Where gradient flow ends on a balanced linear net: one scalar equation."""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import norm
from .._problem import LeastSquares, one_output, predictor, project
from .._units import own_units
from ..potentials._depth import checked_depth
from ..potentials._root import growth

# What is left of a projection or an angle that is zero in exact arithmetic.
ROUNDING = 1e-13


@dataclasses.dataclass(frozen=True, eq=False)
class BalancedLimit:
    """The end of a run from a balanced start.

    Attributes:
        theta: the predictor, in the shape of the problem's `min_norm`.
        residual: the relative error of the scalar equation.
        s: the norm that all layers but the first share at the end.
        distance: D, from `theta` to the minimiser of least norm.
        gap: δ∞ = ‖v1‖² − s² that was assumed.
        saddle: does the run end at θ = 0, which is no minimum?
    """

    theta: np.ndarray
    residual: float
    s: float
    distance: float
    gap: float
    saddle: bool


def balanced_limit(
    problem: LeastSquares, theta0: ArrayLike, depth: int | float, gap: float = 0.0
) -> BalancedLimit:
    r"""The predictor that gradient flow on a balanced net of one output converges to.

    With $P_N$ the projection off the row space, $w_0 = P_N\theta_0\|\theta_0\|^{1/N-1}$, c its norm
    and t the norm of the minimiser of least norm $\theta^+$: the norm s of the layers solves
    $s^{2(N-1)}(s^2 + \delta_\infty - c^2) = t^2$ and $\theta_\infty = \theta^+ + s^{N-1} w_0$. Any
    data: they may be rank-deficient or impossible to fit, and the weight does not matter.

    A start on the stable curve of the saddle θ = 0 converges to 0. That curve lies in the row
    space; it is recognised where it is a straight line, `theta0` a negative multiple of
    $\theta^+$ and both an eigenvector of the curvature (always so when the rank is one).

    Args:
        problem: Regression or Population with k = 1.
        theta0: (d,) or (d, 1), the predictor of the balanced start.
        depth: N, the number of factors: layers of a standard net, 2L − 1 for a rank-1 net of L
            layers; `float("inf")` is the limit of deep nets at a fixed predictor `theta0`.
        gap: δ∞ = ‖v1‖² − s² at the end: 0 for gradient flow, what steps and noise have moved it
            to otherwise (`gd_gap`). It does nothing when depth is 1.
    """
    one_output(problem, "balanced_limit")
    N = checked_depth(depth)
    delta = checks.number("gap", gap)
    start = predictor("theta0", theta0, problem)
    target = np.reshape(problem.min_norm, problem.d)
    rho = norm(start)
    t = norm(target)
    if rho == 0:  # layers that are all zero stay so; one layer is just least squares
        if N == 1:
            return _ended(problem, target, 0.0, 0.0, t, gap)
        return _ended(problem, 0 * target, 0.0, t, 0.0, gap)
    if not math.isfinite(rho):
        raise ValueError("theta0 must have a norm within the range of float64, got one beyond it")
    inside, outside = project(problem.row_space, start / rho)
    if N == 1:  # least squares: what the data do not see stays, and there is no gap
        theta = target + rho * outside
        return _ended(problem, theta, 0.0, rho * norm(outside), norm(theta), gap)
    if _on_stable_line(problem, start / rho, target, norm(outside)):
        return _ended(problem, 0 * target, 0.0, t, 0.0, gap)
    kappa = norm(outside)
    scaled = _in_units_of_start(delta, rho, N)
    T = 2 * (math.log(t) - math.log(rho)) if t > 0 else -math.inf
    root = growth(N - 1, float(inside @ inside) + scaled, scaled - kappa**2, T)
    if root.z == math.inf:
        raise ValueError(
            "theta0 must have a part inside the row space of the data when depth is infinite and "
            "gap is 0: without one the limit moves off to infinity as the depth grows"
        )
    distance = _distance(root.z, rho, kappa)
    theta = target + distance * (outside / (kappa or 1.0))
    s = _layer_norm(N, rho, root.z)
    return _ended(problem, theta, root.residual, distance, s, gap)


def _distance(z: float, rho: float, kappa: float) -> float:
    """σ^{N−1}·‖P_Nθ0‖, in one exponential: its factors may be beyond the floats."""
    if kappa == 0 or z == -math.inf:
        return 0.0
    return float(np.exp(z / 2 + math.log(rho) + math.log(kappa)))


def _in_units_of_start(gap: float, rho: float, N: float) -> float:
    """δ over the square of the layers' norm at the start."""
    log = -2 * math.log(rho) / N + (math.log(abs(gap)) if gap else 0.0)
    if gap and log > 709:
        raise ValueError(
            f"gap must not exceed the squared norm of the layers of theta0 by more than 1e307, "
            f"got {gap:.3g} where theta0 has the norm {rho:.3g}"
        )
    return math.copysign(math.exp(log), gap) if gap else 0.0


def _layer_norm(N: float, rho: float, z: float) -> float:
    return 1.0 if math.isinf(N) else math.exp(math.log(rho) / N + z / (2 * (N - 1)))


def _ended(
    problem: LeastSquares, theta: np.ndarray, residual: float, distance: float, s: float, gap: float
) -> BalancedLimit:
    at_zero = not theta.any() and bool(np.any(problem.min_norm))
    return BalancedLimit(
        problem.at_edge(theta[:, None]), residual, s, distance, float(gap), at_zero
    )


def _on_stable_line(
    problem: LeastSquares, direction: np.ndarray, target: np.ndarray, outside: float
) -> bool:
    """Is θ0 = −aθ⁺ with θ⁺ an eigenvector of the curvature? Then θ keeps to the line, up to 0."""
    t = norm(target)
    if t == 0 or outside > ROUNDING or norm(direction + target / t) > ROUNDING:
        return False
    pull = -np.asarray(own_units(problem).gradient(np.zeros(len(target)))).reshape(-1)
    return norm(pull / norm(pull) - target / t) <= ROUNDING
