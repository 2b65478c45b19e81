r"""Where gradient flow ends on a rank-1 net that need not be balanced.

For every pair $\sqrt P = \|u + v\|$, $\sqrt Q = \|u - v\|$, $\omega = \langle u, v\rangle
= (P - Q)/4$. Gradient flow conserves PQ and $(P + Q)/4 - \|v_1\|^2$, so that all $|\omega_k|$ are
functions of $M = \|v_1\|^2$, and so is $\Xi = |\xi|$.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import norm
from .._problem import LeastSquares, one_output, project, singular_basis
from .._units import PARAMETER, PREDICTOR, homogeneous
from ..potentials._root import newton
from ._sign_crossing import Crossing, follow


class Rank1Params(NamedTuple):
    """The parameters of a `Rank1` net: v1 (d,), u and v (L − 1, width)."""

    v1: np.ndarray
    u: np.ndarray
    v: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Rank1Limit:
    """The end of gradient flow on a rank-1 net.

    Attributes:
        theta: the predictor, in the shape of the problem's `min_norm`.
        residual: the relative error of the scalar equation; 0 at a saddle.
        square: M = ‖v1‖² at the end.
        sign: of ξ at the end; 0 if ξ = 0 there.
        sign_from: "start" if ξ cannot change sign on its way, "integration" if it could and the
            reduced flow was followed.
        distance: D, from `theta` to the minimiser of least norm.
        saddle: does the flow end at θ = 0, which is no minimum?
    """

    theta: np.ndarray
    residual: float
    square: float
    sign: int
    sign_from: str
    distance: float
    saddle: bool


def rank1_params(params: Mapping[str, ArrayLike], d: int | None = None) -> Rank1Params:
    """The parameters of a Rank1 net, checked."""
    if not isinstance(params, Mapping) or not {"v1", "u", "v"} <= set(params):
        got = sorted(params) if isinstance(params, Mapping) else type(params).__name__
        raise ValueError(f"params must have the arrays 'v1', 'u' and 'v' of a Rank1 net, got {got}")
    u = checks.array("params['u']", params["u"], ndim=(2,))
    v = checks.array("params['v']", params["v"], shape=u.shape)
    return Rank1Params(checks.array("params['v1']", params["v1"], shape=(d,)), u, v)


@homogeneous({"theta": PREDICTOR, "square": 2 * PARAMETER, "distance": PREDICTOR})
def rank1_limit(problem: LeastSquares, params: Mapping[str, ArrayLike]) -> Rank1Limit:
    r"""The predictor that gradient flow on a rank-1 net converges to, from any start.

    M solves $\Xi(M)^2\,(M - \|P_N v_1(0)\|^2) = \|\theta^+\|^2$, with $P_N$ the projection off the
    row space and $\theta^+$ the minimiser of least norm; then
    $\theta_\infty = \theta^+ \pm \Xi(M)\,P_N v_1(0)$. So the distance is always known. The sign is
    that of ξ(0) if ξ cannot reach zero: because the inside of v1 starts below every
    $|\|u+v\| - \|u-v\||/2$, or because the loss starts below that of θ = 0. If it might, the flow
    is integrated in r + L − 1 scalars until its loss is below that of θ = 0.

    Args:
        problem: Regression or Population with k = 1.
        params: v1, u and v of a `Rank1` net.
    """
    one_output(problem, "rank1_limit")
    start = rank1_params(params, problem.d)
    view = singular_basis(problem)
    inside, outside = project(view.basis, start.v1)
    way = follow(view, inside, start.u, start.v)
    target = np.reshape(problem.min_norm, problem.d)
    if way.saddle:
        zero = problem.at_edge(np.zeros((problem.d, 1)))
        square = float(way.inside @ way.inside) + norm(outside) ** 2
        return Rank1Limit(zero, 0.0, square, 0, way.known_from, norm(target), True)
    root = _end(inside, start, norm(target))
    sign, xi = _signed(way, root.log_xi)
    theta = target + sign * xi * outside
    square = root.inside_square + norm(outside) ** 2
    return Rank1Limit(
        problem.at_edge(theta[:, None]),
        root.residual,
        square,
        sign,
        way.known_from,
        xi * norm(outside),
        False,
    )


class _End(NamedTuple):
    """log Ξ and ‖P_R v1‖² at the end, and the error of their equation."""

    log_xi: float
    inside_square: float
    residual: float


def _end(inside: np.ndarray, start: Rank1Params, t: float) -> _End:
    """The root of Π(x + α_j) = t², where no α_j is negative and one is zero.

    With y = ‖P_R v1‖² it is y·Ξ² = t², and Ξ² a product of (‖u+v‖ ± ‖u−v‖)²/4 + y − y(0) over the
    pairs. x is the distance of y from the largest zero of the left-hand side.
    """
    low, high = pair_levels(start.u, start.v)
    now = float(inside @ inside)
    shift = min([now, *low])
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate([[now - shift], low - shift, high - shift]))

    def equation(log_x: float) -> tuple[float, float]:
        terms = np.logaddexp(log_x, logs)
        return float(np.sum(terms)), float(np.sum(np.exp(log_x - terms)))

    if t == 0:
        return _End(float(np.sum(logs[1:])) / 2, now - shift, 0.0)
    goal = 2 * math.log(t)
    log_x, residual = newton(equation, goal / len(logs), goal)
    terms = np.logaddexp(log_x, logs)
    return _End(float(np.sum(terms[1:])) / 2, math.exp(terms[0]), residual)


def pair_levels(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(‖u+v‖ − ‖u−v‖)²/4 and (‖u+v‖ + ‖u−v‖)²/4 of every pair; their product is ω²."""
    total = np.linalg.norm(u + v, axis=1) + np.linalg.norm(u - v, axis=1)
    overlap = np.sum(u * v, axis=1)
    # The difference of the norms is 4ω over their sum, without cancellation where ω is small.
    low = np.divide(2 * overlap, total, out=np.zeros_like(total), where=total > 0)
    return low * low, total * total / 4


def _signed(way: Crossing, log_xi: float) -> tuple[int, float]:
    xi = math.exp(log_xi)
    return (way.sign if xi > 0 else 0), xi
