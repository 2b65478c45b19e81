r"""What a finite step changes: the gap of gradient descent, and the flow that it really follows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from .._problem import LeastSquares, least_squares, one_output, singular_basis
from .._units import LOSS, PARAMETER, PREDICTOR, TIME, homogeneous
from ._gap import GradientMoments, final_gap

Params = dict[str, np.ndarray]
TINY = 1e-30  # of a complex step: its square is lost in rounding, so the derivative is exact


@homogeneous(2 * PARAMETER, by="theta0", theta0=PREDICTOR, lr=TIME)
def gd_gap(problem: LeastSquares, theta0: ArrayLike, depth: int, lr: float) -> float:
    r"""δ∞ = ‖v1‖² − s² of gradient descent from a balanced start, to first order in lr.

    $\dot\delta = \mathrm{lr}\,\xi^2\,[\|g\|^2 - (v_1\cdot g)^2/s^2]$ along gradient flow, with g
    the gradient in the predictor, for the problem's own weight. Give it to `balanced_limit`.

    Args:
        problem: Regression or Population with k = 1.
        theta0: (d,) or (d, 1), the predictor of the balanced start; not zero.
        depth: N, the number of factors; 2L − 1 for a rank-1 net of L layers. One factor has no
            gap: 0.
        lr: the learning rate.
    """
    one_output(problem, "gd_gap")
    view = singular_basis(problem)

    def moments(error: np.ndarray, a: np.ndarray) -> GradientMoments:
        g = view.curvature * error
        return GradientMoments(float(g @ g), float(a @ g) ** 2)

    return final_gap(problem, view, theta0, depth, lr, moments)


@homogeneous(LOSS, lr=TIME)
def modified_loss(problem: LeastSquares, params: Mapping[str, ArrayLike], lr: float) -> float:
    r"""$L + \tfrac{\mathrm{lr}}{4}\|\nabla L\|^2$, whose flow gradient descent follows.

    k steps of size lr are at time k·lr of that flow, up to an error of lr² where the flow of L
    alone has one of lr.

    Args:
        problem: Regression or Population.
        params: of a Rank1 (v1, u, v), TwoLayer or Deep (W1, W2, …) or Diagonal net (u, v).
        lr: the learning rate.
    """
    point = _point(problem, params)
    lr = checks.number("lr", lr, at_least=0)
    square = sum(float(np.sum(g * g)) for g in _gradient(problem, point).values())
    return float(problem.loss(_predictor(point))) + lr / 4 * square


@homogeneous(PARAMETER - TIME, lr=TIME)
def modified_velocity(problem: LeastSquares, params: Mapping[str, ArrayLike], lr: float) -> Params:
    r"""$-\nabla L - \tfrac{\mathrm{lr}}{2}\nabla^2 L\,\nabla L$: the flow of `modified_loss`.

    Args:
        problem: Regression or Population.
        params: of a Rank1 (v1, u, v), TwoLayer or Deep (W1, W2, …) or Diagonal net (u, v).
        lr: the learning rate.

    Returns:
        The velocity of every parameter.
    """
    point = _point(problem, params)
    lr = checks.number("lr", lr, at_least=0)
    g = _gradient(problem, point)
    moved = _curved(problem, point, g)
    return {name: -(g[name] + lr / 2 * moved[name]) for name in g}


def hessian_product(
    problem: LeastSquares, params: Mapping[str, ArrayLike], direction: Mapping[str, np.ndarray]
) -> Params:
    """The Hessian of the loss times a direction.

    Args:
        problem: Regression or Population.
        params: as in `modified_loss`.
        direction: an array for every parameter.
    """
    return _curved(problem, _point(problem, params), dict(direction))


def _curved(problem: LeastSquares, point: Params, direction: Params) -> Params:
    longest = max(float(np.max(np.abs(x), initial=0.0)) for x in direction.values()) or 1.0
    step = TINY / longest
    shifted: Any = {name: point[name] + 1j * step * direction[name] for name in point}
    moved: Any = _gradient(problem, shifted)
    return {name: moved[name].imag / step for name in point}


def _point(problem: LeastSquares, params: Mapping[str, ArrayLike]) -> Params:
    least_squares(problem)
    if not isinstance(params, Mapping):
        raise ValueError(f"params must be a dict of arrays by name, got {type(params).__name__}")
    point = {name: checks.array(f"params[{name!r}]", x) for name, x in params.items()}
    chain = {f"W{i}" for i in range(1, len(point) + 1)}
    if not point or set(point) not in (chain, {"v1", "u", "v"}, {"u", "v"}):
        raise ValueError(
            "params must be those of a Rank1 (v1, u, v), TwoLayer or Deep (W1, W2, …) or Diagonal "
            f"net (u, v), got {sorted(point)}"
        )
    try:
        theta = _predictor(point)
    except ValueError:  # NumPy's own words would name no argument
        shapes = {name: x.shape for name, x in point.items()}
        raise ValueError(f"params must fit together, got shapes {shapes!r:.200}") from None
    problem.as_predictor(theta)
    return point


def _factors(point: Params) -> list[np.ndarray]:
    """The matrices whose product is the predictor; rows of a Rank1 net become matrices."""
    if "v1" not in point:
        return [point[f"W{i}"] for i in range(1, len(point) + 1)]
    pairs = zip(point["u"], point["v"], strict=True)
    return [point["v1"][:, None], *(x for u, v in pairs for x in (u[None, :], v[:, None]))]


def _predictor(point: Params) -> np.ndarray:
    if set(point) == {"u", "v"}:
        return (point["u"] ** 2 - point["v"] ** 2).reshape(len(point["u"]), 1)
    return _product(_factors(point))


def _product(factors: list[np.ndarray]) -> np.ndarray:
    result = factors[0]
    for factor in factors[1:]:
        result = result @ factor
    return result


def _gradient(problem: LeastSquares, point: Params) -> Params:
    """The gradient in the parameters; analytic, so that it takes complex ones."""
    G: Any = problem.theta_gradient(_predictor(point))
    if set(point) == {"u", "v"}:
        return {"u": 2 * point["u"] * G[:, 0], "v": -2 * point["v"] * G[:, 0]}
    factors = _factors(point)
    before = [np.eye(len(G))]
    after = [np.eye(G.shape[1])]
    for factor in factors[:-1]:
        before.append(before[-1] @ factor)
    for factor in factors[:0:-1]:
        after.append(factor @ after[-1])
    pulled = [a.T @ G @ b.T for a, b in zip(before, reversed(after), strict=True)]
    if "v1" not in point:
        return {f"W{i}": g for i, g in enumerate(pulled, start=1)}
    shape = point["u"].shape
    u, v = (np.reshape([g.ravel() for g in pulled[i::2]], shape) for i in (1, 2))
    return {"v1": pulled[0][:, 0], "u": u, "v": v}
