"""The flows that finite steps, momentum and Adam really follow, to second order in the step."""

from collections.abc import Callable, Mapping

import numpy as np
import scipy.integrate
from numpy.typing import ArrayLike

from ...numerics import checks
from .._problem import LeastSquares
from ..rank1 import _finite_step as plain
from ._adam import update_bound
from ._momentum import momentum_factor

Params = dict[str, np.ndarray]
TOLERANCE = 1e-12


def modified_loss(
    problem: LeastSquares, params: Mapping[str, ArrayLike], lr: float, momentum: float = 0.0
) -> float:
    r"""$L + \frac{\eta_e(1+\beta)}{4(1-\beta)}\|\nabla L\|^2$, whose flow heavy ball follows.

    k steps are at time k·η_e of it, up to η², if it starts at `shifted_start`; β = 0 is gradient
    descent.

    Args:
        problem: Regression or Population.
        params: of a Rank1, TwoLayer, Deep or Diagonal net.
        lr: η.
        momentum: β.
    """
    return plain.modified_loss(problem, params, _rate(lr, momentum))


def shifted_start(
    problem: LeastSquares, params: Mapping[str, ArrayLike], lr: float, momentum: float
) -> Params:
    r"""$\theta_0 + \eta_e\frac{\beta}{1-\beta}\nabla L(\theta_0)$: heavy ball at rest lags by that.

    From θ_0 itself the flow of `modified_loss` would be right to first order only.
    """
    beta = checks.number("momentum", momentum, at_least=0, below=1)
    lag = checks.number("lr", lr, at_least=0) * beta / (1 - beta) ** 2
    slope = plain.modified_velocity(problem, params, 0.0)
    return {name: np.asarray(x) - lag * slope[name] for name, x in params.items()}


def modified_flow(
    problem: LeastSquares,
    params: Mapping[str, ArrayLike],
    lr: float,
    steps: int,
    momentum: float = 0.0,
) -> Params:
    """Where heavy ball from rest is after some steps, by the flow of `modified_loss`.

    It starts at `shifted_start`; an error of η² remains. The arguments are those of
    `modified_loss`.
    """
    rate = _rate(lr, momentum)
    time = checks.integer("steps", steps) * lr / (1 - momentum)
    start = shifted_start(problem, params, lr, momentum)
    return _flow(lambda p: plain.modified_velocity(problem, p, rate), start, time)


def adam_flow(
    problem: LeastSquares,
    params: Mapping[str, ArrayLike],
    lr: float,
    steps: int,
    betas: tuple[float, float],
    eps: float,
) -> Params:
    r"""Where Adam is some steps after these parameters, once its averages have forgotten the start.

    With ε inside the root and $R_j = \sqrt{g_j^2+\epsilon}$, $N = \nabla\sum_jR_j$:
    $\dot\theta_j = -g_j/R_j - \frac{\eta}{2}\frac{N_j}{R_j}[\frac{1+\beta_1}{1-\beta_1}
    - \frac{1+\beta_2}{1-\beta_2}(1-\epsilon/R_j^2)]$. For β₂ > β₁ and small ε the bracket is
    negative: Adam raises the perturbed 1-norm of the gradient.

    Args:
        problem: Regression or Population.
        params: of a Rank1, TwoLayer, Deep or Diagonal net.
        lr: η.
        steps: how many steps later.
        betas: β₁ and β₂.
        eps: ε, inside the root; positive.
    """
    beta1, beta2 = betas
    update_bound(beta1, beta2)  # says what is wrong with them
    lr = checks.number("lr", lr, above=0)
    eps = checks.number("eps", eps, above=0)
    first = momentum_factor(beta1)
    second = momentum_factor(beta2)

    def velocity(p: Params) -> Params:
        g = {n: -v for n, v in plain.modified_velocity(problem, p, 0.0).items()}
        R = {n: np.sqrt(x * x + eps) for n, x in g.items()}
        N = plain.hessian_product(problem, p, {n: g[n] / R[n] for n in g})
        bracket = {n: first - second * (1 - eps / R[n] ** 2) for n in g}
        return {n: -g[n] / R[n] - lr / 2 * N[n] / R[n] * bracket[n] for n in g}

    start = {name: np.asarray(x, np.float64) for name, x in params.items()}
    return _flow(velocity, start, checks.integer("steps", steps) * lr)


def _rate(lr: float, momentum: float) -> float:
    """The step of plain descent that has the same modified loss."""
    factor = momentum_factor(momentum)
    return checks.number("lr", lr, at_least=0) / (1 - momentum) * factor


def _flow(velocity: Callable[[Params], Params], start: Params, time: float) -> Params:
    shapes = {name: x.shape for name, x in start.items()}
    cuts = np.cumsum([x.size for x in start.values()])[:-1]

    def shaped(flat: np.ndarray) -> Params:
        parts = zip(shapes.items(), np.split(flat, cuts), strict=True)
        return {name: part.reshape(shape) for (name, shape), part in parts}

    def moved(_: float, flat: np.ndarray) -> np.ndarray:
        found = velocity(shaped(flat))
        return np.concatenate([found[name].ravel() for name in shapes])

    first = np.concatenate([x.ravel() for x in start.values()])
    if time == 0:
        return shaped(first)
    found = scipy.integrate.solve_ivp(
        moved, (0.0, time), first, method="DOP853", rtol=TOLERANCE, atol=TOLERANCE
    )
    return shaped(found.y[:, -1])
