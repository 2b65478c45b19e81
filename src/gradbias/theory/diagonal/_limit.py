"""Where gradient flow of a diagonal net ends."""

import dataclasses

import numpy as np
import scipy.optimize

from .._problem import LeastSquares, Params
from ._dual import STAGE, Solution, sink, solve
from ._fits import Fits, fits, halves
from ._log_point import Point, parameters, point

UNREACHED = 1e-12  # of the labels: a misfit up to this is rounding


@dataclasses.dataclass(frozen=True)
class DiagonalLimit:
    """The end of a gradient flow.

    Attributes:
        u: (d,).
        v: (d,).
        theta: (d,) u² − v², without the cancellation.
        residual: max|Vᵀ(θ − fit)| over the largest of θ and the fit (of u0² and v0² if the fit is
            zero). It certifies the answer, whose form, u = u₀e^{a/2} and v = v₀e^{−a/2} with a in
            the row space, holds by construction.
        steps: of Newton's method.
    """

    u: np.ndarray
    v: np.ndarray
    theta: np.ndarray
    residual: float
    steps: int


def limit(problem: LeastSquares, params: Params) -> DiagonalLimit:
    """The end point of gradient flow on Θ = u² − v² from (u0, v0), without integrating.

    The flow multiplies: u = u₀e^{a/2}, v = v₀e^{−a/2} with a in the row space, so r = rank X
    smooth unknowns are left, found by Newton's method in logarithms (u and v from 1e-150 to 1e150).
    The weight of the problem changes the flow's speed and not its end. Labels that cannot be
    fitted are approached as far as possible: the end is a least-squares fit.

    A zero in u0 or v0 stays zero, so its θ keeps one sign (or is zero). The end is then a
    least-squares fit under these signs; a coordinate that has to vanish does so to rounding of
    θ, 1e-8 in u or v.

    Args:
        problem: a Regression or Population with one output; X of any rank.
        params: u and v at the start, (d,) each, of any signs.
    """
    goal = fits(problem)
    u, v = halves(problem.d, params)
    goal = reachable(goal, u, v)
    scale = natural_scale(goal, u, v)
    end = settle(goal.scaled(scale), point(u, v, scale))
    ends = parameters(end.at, u, v, scale)
    return DiagonalLimit(*ends, scale * end.at.theta(), end.residual, end.steps)


def natural_scale(goal: Fits, u: np.ndarray, v: np.ndarray) -> float:
    """The unit of θ in which no number over- or underflows."""
    fit = float(np.max(np.abs(goal.b), initial=0.0))
    start = float(np.max(np.maximum(np.abs(u), np.abs(v))))
    # Squares of the start may be beyond float64, and the fit's rounding is no scale at all.
    start = float(np.clip(start, 1e-150, 1e150)) ** 2 if start > 0 else 0.0
    return fit if fit > 1e-100 * start else start or 1.0


def settle(goal: Fits, start: Point, accuracy: float = 0.0) -> Solution:
    """The end of the flow from `start`; by way of larger uv where uv is tiny.

    To `accuracy` in logarithms where uv is not; 0 for rounding.
    """
    height = start.height()
    lift = np.where(np.isfinite(height), np.maximum(-STAGE - height, 0.0), 0.0)
    above = solve(goal, start.moved(0.0, -lift), accuracy)
    below = sink(goal, above.at, lift)
    return below._replace(steps=above.steps + below.steps)


def reachable(goal: Fits, u: np.ndarray, v: np.ndarray) -> Fits:
    """The fits under the signs that zeros in the start impose."""
    if u.all() and v.all():
        return goal
    up = np.flatnonzero(u)
    down = np.flatnonzero(v)
    columns = goal.s[:, None] * np.hstack([goal.V[up].T, -goal.V[down].T])
    aim = goal.s * goal.b
    scale = np.max(np.abs(aim), initial=0.0)
    if columns.size == 0 or scale == 0:
        return dataclasses.replace(goal, b=np.zeros_like(goal.b))
    parts, misfit = scipy.optimize.nnls(columns, aim / scale)
    if misfit <= UNREACHED:
        return goal
    fit = np.zeros(len(u))
    np.add.at(fit, up, parts[: len(up)])
    np.subtract.at(fit, down, parts[len(up) :])
    return dataclasses.replace(goal, b=goal.V.T @ (scale * fit))
