"""Gradient flow from $I_γ$ seen from the predictor, from α, and from the singular values."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from .._problem import LeastSquares, force
from .._units import PREDICTOR, RATE, TIME, homogeneous
from ._layers import beta_of
from ._scalars import below
from ._svd import matrix, svd


class SingularVelocity(NamedTuple):
    """The singular values of β and their velocities, largest value first."""

    sigma: np.ndarray
    velocity: np.ndarray


@homogeneous(PREDICTOR - TIME, by="beta", beta=PREDICTOR, gamma=PREDICTOR)
def beta_velocity(problem: LeastSquares, beta: ArrayLike, gamma: float) -> np.ndarray:
    r"""The closed equation of the predictor: $\beta' = MR + RN$ with R = −∂L/∂β.

    Under $I_γ$ the Gram matrices $M = \gamma I + \sqrt{\gamma^2 I + \beta\beta^T}$ and
    $N = -\gamma I + \sqrt{\gamma^2 I + \beta^T\beta}$ are functions of β. For one output:
    $\beta' = 2\gamma R + (\beta\beta^T R + |\beta|^2 R)/(\gamma + \sqrt{|\beta|^2+\gamma^2})$.

    Args:
        problem: a Regression or a Population; the velocity is in its own time.
        beta: the predictor, (d, k), or (d,) with one output.
        gamma: the scale of the init, at least 0.

    Returns:
        dβ/dt, of the shape of `beta`.
    """
    gamma = checks.number("gamma", gamma, at_least=0)
    R = force(problem, beta)
    U, sigma, Vt = svd(matrix("beta", beta))
    grown = below(sigma, gamma)  # M = 2γI + U·grown·Uᵀ: no d × d matrix
    velocity = 2 * gamma * R + (U * grown) @ (U.T @ R) + (R @ Vt.T * grown) @ Vt
    return velocity.reshape(np.shape(beta))


@homogeneous(RATE, by="gamma", gamma=PREDICTOR)
def alpha_velocity(problem: LeastSquares, alpha: ArrayLike, gamma: float) -> np.ndarray:
    r"""The dual equation $\alpha' = R - \alpha R^T\alpha$ (Lemma 3.3).

    A description, not a way to integrate: for γ ≪ ‖β‖ the singular values of α crowd at 1, and
    the predictor read from them loses its digits (all of them below γ = 1e-8).

    Args:
        problem: a Regression or a Population; the velocity is in its own time.
        alpha: (d, k), or (d,) with one output; singular values below 1.
        gamma: the scale of the init, above 0.
    """
    R = force(problem, beta_of(alpha, gamma))
    a = matrix("alpha", alpha)
    return (R - a @ (R.T @ a)).reshape(np.shape(alpha))


@homogeneous(
    {"sigma": PREDICTOR, "velocity": PREDICTOR - TIME},
    by="beta",
    beta=PREDICTOR,
    gamma=PREDICTOR,
)
def singular_value_velocity(
    problem: LeastSquares, beta: ArrayLike, gamma: float
) -> SingularVelocity:
    r"""Theorem 3.2a: $\sigma_i' = 2\sqrt{\sigma_i^2+\gamma^2}\;u_i^T R v_i$.

    In words, $d\,\tfrac12\mathrm{asinh}(\sigma_i/\gamma) = u_i^T R v_i\,dt$: a mirror flow with
    the singular-value potential. It is not autonomous, since u_i and v_i turn, and it needs
    distinct non-zero singular values: β = 0 and crossings have no singular vectors.

    Args:
        problem: a Regression or a Population; the velocity is in its own time.
        beta: the predictor, (d, k), or (d,) with one output.
        gamma: the scale of the init, at least 0.
    """
    gamma = checks.number("gamma", gamma, at_least=0)
    R = force(problem, beta)
    U, sigma, Vt = svd(matrix("beta", beta))
    pull = np.einsum("ji,jk,ik->i", U, R, Vt)
    return SingularVelocity(sigma, 2 * np.hypot(sigma, gamma) * pull)
