"""Theorem 1: the imbalance alone guarantees a rate, and with it a bound on the weights."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ...numerics.linalg import norm
from .._problem import LeastSquares, Params
from .._units import LOSS, NONE, PARAMETER, TIME, LogOf, homogeneous
from ._coordinates import VisibleLayers, learning, log, times
from ._imbalance import extremes


@homogeneous(LOSS, t=TIME)
def rate_bound(problem: LeastSquares, params: Params, t: ArrayLike) -> np.ndarray:
    r"""Theorem 1: $L(t) - L^* \le e^{-2\lambda_r c\,t}\,(L(0) - L^*)$ under gradient flow.

    In the problem's own time and weight: the exponent is −4·weight·σ_r²·c·t.

    Args:
        problem: Regression or Population.
        params: W1 (D, h) and W2 (h, m) at time 0.
        t: times, of any shape.

    Returns:
        The bound on the loss above its minimum, in the shape of `t`.
    """
    seen = learning(problem, params)
    at = times(t)
    start = log(seen.split.weight) + 2 * log(norm(seen.E))
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(start - 2 * imbalance_rate(seen) * at))


@homogeneous(LogOf(2 * PARAMETER))
def log_norm_bound(problem: LeastSquares, params: Params) -> float:
    r"""The logarithm of Theorem 1's bound on $\|V(t)\|_F^2 + \|U_1(t)\|_F^2$ at all times.

    The bound is $e^{2\theta}$ times the value at time 0, with the exponent θ of `growth_bound`;
    it is a logarithm because the bound itself overflows easily. Infinite without imbalance.
    """
    seen = learning(problem, params)
    size = log(norm(seen.Z))
    return 2 * (growth(seen) + size) if size > -math.inf else size  # zero weights stay zero


@homogeneous(NONE)
def growth_bound(problem: LeastSquares, params: Params) -> float:
    r"""A bound $\theta = \sigma_1\|E(0)\|_F/(\sigma_r^2 c)$ on $\int_0^\infty\|S^{1/2}E\|\,dt$.

    The weights, and the bias with them, grow by a factor of $e^\theta$ at most. Infinite without
    imbalance, zero at a minimum.
    """
    return growth(learning(problem, params))


def imbalance_rate(seen: VisibleLayers) -> float:
    """The rate kA of ‖E‖ that Theorem 1 guarantees, in the problem's own time."""
    ends = extremes(seen)
    with np.errstate(over="ignore"):
        return float(seen.split.speed * (seen.split.S[-1] * (ends.lam_r + ends.nu_m)))


def growth(seen: VisibleLayers) -> float:
    """The exponent θ; times cancel, so it is the same in the problem's own."""
    size = norm(seen.E)
    rate = imbalance_rate(seen) / seen.split.speed
    if size == 0:
        return 0.0
    return float(seen.split.sigma[0] * size / rate) if rate > 0 else float("inf")
