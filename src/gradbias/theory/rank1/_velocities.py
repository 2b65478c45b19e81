r"""Gradient flow seen by the predictor: its velocity, the rate of the loss, the mirror's clock.

The formulas hold for the problem's own weight: with $g = \nabla L(\theta)$, which is
$(2/n)X^T(X\theta - y)$ for a mean.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.integrate
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import norm
from ...numerics.units import exponent, in_own_unit, times_power_of_two
from .._problem import LeastSquares, one_output, predictor
from .._units import LOSS, PREDICTOR, TIME, homogeneous
from ..potentials._depth import checked_depth
from ._any_start import rank1_params
from ._sign_crossing import excluding


class Exponents(NamedTuple):
    """λ = 1 − 1/N and Ω = 1 + 1/N of a net with N factors; λ + Ω = 2."""

    lam: float
    omega: float


class Overlaps(NamedTuple):
    """What a rank-1 net multiplies v1 with.

    Attributes:
        omega: (L − 1,) ω_k = ⟨u[k], v[k]⟩.
        xi: ξ = Π ω_k, θ = ξ·v1.
        before: (L − 1,) the paper's ρ_{−k}, the product of ω_j over j < k.
        after: (L − 1,) the paper's ρ_k, over j > k.
        phi: Φ = Σ_k (ξ/ω_k)²(‖u[k]‖² + ‖v[k]‖²), finite also where ω_k = 0.
    """

    omega: np.ndarray
    xi: float
    before: np.ndarray
    after: np.ndarray
    phi: float


def depth_exponents(depth: int | float) -> Exponents:
    """λ and Ω of the potential; with depth 2L − 1 the paper's λ_L and Ω_L.

    Args:
        depth: N, the number of factors; may be `float("inf")`.
    """
    N = checked_depth(depth)
    return Exponents(1 - 1 / N, 1 + 1 / N)


def rank1_overlaps(params: Mapping[str, ArrayLike]) -> Overlaps:
    """ω, ξ, ρ and Φ of a rank-1 net.

    Args:
        params: v1, u and v of a `Rank1` net.
    """
    _, u, v = rank1_params(params)
    omega = np.sum(u * v, axis=1)
    before = np.concatenate([np.ones(1), np.cumprod(omega)])[: len(omega)]
    after = np.concatenate([np.ones(1), np.cumprod(omega[::-1])])[: len(omega)][::-1]
    others = excluding(omega)
    phi = np.sum(others**2 * (np.sum(u * u, axis=1) + np.sum(v * v, axis=1)))
    return Overlaps(omega, float(np.prod(omega)), before, after, float(phi))


@homogeneous(PREDICTOR - TIME)
def theta_velocity(problem: LeastSquares, params: Mapping[str, ArrayLike]) -> np.ndarray:
    r"""dθ/dt of gradient flow on a rank-1 net, from any parameters.

    $\dot\theta = -(\xi^2 I + \Phi\,v_1 v_1^T)\,g$.

    Args:
        problem: Regression or Population with k = 1.
        params: v1, u and v of a `Rank1` net.

    Returns:
        In the shape of the problem's `min_norm`.
    """
    v1, xi, phi, g = _pulled(problem, params, "theta_velocity")
    return problem.at_edge(-(xi**2 * g + phi * v1 * (v1 @ g))[:, None])


@homogeneous(LOSS - TIME)
def rank1_loss_rate(problem: LeastSquares, params: Mapping[str, ArrayLike]) -> float:
    r"""dL/dt of gradient flow on a rank-1 net: $-\xi^2\|g\|^2 - \Phi\,(v_1\cdot g)^2$.

    Args:
        problem: Regression or Population with k = 1.
        params: v1, u and v of a `Rank1` net.
    """
    v1, xi, phi, g = _pulled(problem, params, "rank1_loss_rate")
    return -float(xi**2 * (g @ g) + phi * (v1 @ g) ** 2)


@homogeneous(PREDICTOR - TIME, by="theta", theta=PREDICTOR)
def balanced_velocity(problem: LeastSquares, theta: ArrayLike, depth: int) -> np.ndarray:
    r"""dθ/dt of gradient flow on a balanced net, a function of the predictor alone.

    $\dot\theta = -\|\theta\|^{2-2/N}\,(I + (N-1)\,\theta\theta^T/\|\theta\|^2)\,g$.

    Args:
        problem: Regression or Population with k = 1.
        theta: (d,) or (d, 1).
        depth: N, the number of factors; 2L − 1 for a rank-1 net of L layers.

    Returns:
        In the shape of the problem's `min_norm`.
    """
    N, factor, unit, g = _balanced(problem, theta, depth, "balanced_velocity")
    return problem.at_edge(-factor * (g + (N - 1) * unit * (unit @ g))[:, None])


@homogeneous(LOSS - TIME, by="theta", theta=PREDICTOR)
def loss_rate(problem: LeastSquares, theta: ArrayLike, depth: int) -> float:
    r"""dL/dt of gradient flow on a balanced net.

    $\dot L = -\|\theta\|^{2-2/N}\,[\|g\|^2 + (N-1)(\theta\cdot g)^2/\|\theta\|^2]$.

    Args:
        problem: Regression or Population with k = 1.
        theta: (d,) or (d, 1).
        depth: N, the number of factors; 2L − 1 for a rank-1 net of L layers.
    """
    N, factor, unit, g = _balanced(problem, theta, depth, "loss_rate")
    return -float(factor * (g @ g + (N - 1) * (unit @ g) ** 2))


def time_warp(theta: ArrayLike, depth: int | float) -> np.ndarray:
    r"""$d\tau/dt = |\xi| = \|\theta\|^{1-1/N}$: only in τ is a balanced net a mirror flow.

    In that time $\frac{d}{d\tau}\nabla V(\theta) = -g$ with the potential of `rank1_potential`.

    Args:
        theta: (…, d), one or many predictors.
        depth: N, the number of factors; may be `float("inf")`.
    """
    theta = checks.array("theta", theta)
    lam = depth_exponents(depth).lam
    unit = exponent(theta) or 0
    size = np.linalg.norm(times_power_of_two(theta, -unit), axis=-1)
    return np.asarray(times_power_of_two(size**lam, lam * unit))


def warped_time(t: ArrayLike, theta: ArrayLike, depth: int | float) -> np.ndarray:
    """τ along a path: the integral of `time_warp`, by Simpson's rule.

    Args:
        t: (m,) times, increasing.
        theta: (m, d), the predictor at these times.
        depth: N, the number of factors; may be `float("inf")`.
    """
    times = checks.array("t", t, ndim=(1,))
    path = checks.array("theta", theta, shape=(len(times), None))
    if len(times) == 0 or not np.all(np.diff(times) > 0):
        raise ValueError(f"t must increase and not be empty, got {times!r:.80}")
    times, of_time = in_own_unit(times)
    speed, of_speed = in_own_unit(time_warp(path, depth))
    warped = scipy.integrate.cumulative_simpson(speed, x=times, initial=0.0)
    return np.asarray(times_power_of_two(warped, of_time + of_speed))


def _pulled(
    problem: LeastSquares, params: Mapping[str, ArrayLike], what: str
) -> tuple[np.ndarray, float, float, np.ndarray]:
    """v1, ξ, Φ and g."""
    one_output(problem, what)
    v1 = rank1_params(params, problem.d).v1
    xi = rank1_overlaps(params)
    return v1, xi.xi, xi.phi, np.asarray(problem.gradient(xi.xi * v1))


def _balanced(
    problem: LeastSquares, theta: ArrayLike, depth: int, what: str
) -> tuple[float, float, np.ndarray, np.ndarray]:
    """N, ‖θ‖^{2−2/N}, θ/‖θ‖ and g; at θ = 0 the direction is zero, and it has no weight there."""
    one_output(problem, what)
    N = checked_depth(depth, finite=True)
    theta = predictor("theta", theta, problem)
    size = norm(theta)
    unit = theta / size if size else theta
    return N, math.pow(size, 2 - 2 / N), unit, np.asarray(problem.gradient(theta))
