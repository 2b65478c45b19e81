"""Statements of the noise-equilibrium paper as printed, where they fail: for comparison only.

Convention of the rest of this package: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖², loss without ½.
What the paper calls σ² is κ/2 in its main text and κ in its appendix B.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import thin_svd
from ...numerics.psd import power
from ._deep_equilibrium import Weights
from ._factorisation import factorisation_hessian_trace, factors, relative_gap
from ._fixed_point import fixed_point, spectra
from ._moments import moments
from ._noether_flow import noether_flow

if TYPE_CHECKING:
    from ...problems import Problem

__all__ = [
    "approximate_charge",
    "charge_bound",
    "deep_equilibrium",
    "equilibrium_norm",
    "factorisation_residual",
    "hessian_trace",
    "noether_flow_7",
    "rate_bound",
    "tracking_error",
]


def noether_flow_7(
    mu: ArrayLike, sigma2: ArrayLike, theta2: ArrayLike, kappa: float, weight_decay: float = 0.0
) -> float:
    """Eq 7: the noise term with σ² = κ/2 and C = θᵀAθ, half of what it is."""
    flow = noether_flow(mu, sigma2, theta2, kappa, weight_decay)
    return flow.decay + flow.noise / 2


def equilibrium_norm(trace: float, norm2: float, kappa: float, weight_decay: float) -> float:
    """Eq 24: the norm where −γ‖θ‖² + σ² Tr Σ vanishes with σ² = κ/2, 2^¼ times too large."""
    return float((kappa * trace * norm2 / (2 * weight_decay)) ** 0.25)


def charge_bound(mu: ArrayLike, sigma2: ArrayLike, theta2: ArrayLike) -> tuple[float, float]:
    """Lemma B.3: −(C − C*)/λ* and its upper bound 2θ*ᵀA±²θ*; false, the A∓ part has the wrong sign.

    Args:
        mu: (m,) eigenvalues of A, of both signs.
        sigma2: (m,) the noise along its eigenvectors.
        theta2: (m,) the squares (nᵢᵀθ)².
    """
    mu, sigma2, theta2 = spectra(mu, sigma2, theta2)
    lam = fixed_point(mu, sigma2, theta2, 1.0)
    there = theta2 * np.exp(2 * lam * mu)
    side = mu * lam > 0
    return float((mu @ there - mu @ theta2) / lam), float(2 * mu[side] ** 2 @ there[side])


def rate_bound(
    mu: ArrayLike, sigma2: ArrayLike, theta2: ArrayLike, kappa: float
) -> tuple[float, float]:
    """Corollary B.4: (dC/dt)/(C − C*) and its upper bound −κ Tr[Σ*A±²]/θ*ᵀA±²θ*; false.

    Args:
        mu: (m,) eigenvalues of A, of both signs.
        sigma2: (m,) the noise along its eigenvectors.
        theta2: (m,) the squares (nᵢᵀθ)².
        kappa: lr/S.
    """
    mu, sigma2, theta2 = spectra(mu, sigma2, theta2)
    lam = fixed_point(mu, sigma2, theta2, kappa)
    there = theta2 * np.exp(2 * lam * mu)
    noise = sigma2 * np.exp(-2 * lam * mu)
    side = mu * lam > 0
    bound = -kappa * (mu[side] ** 2 @ noise[side]) / (mu[side] ** 2 @ there[side])
    return float(kappa * (mu @ sigma2) / (mu @ theta2 - mu @ there)), float(bound)


def tracking_error(rate: float, drift: float, volatility: float) -> float:
    """Lemma B.5: (2μ² + s²)/2c², whose second term lacks a factor c."""
    return (2 * drift**2 + volatility**2) / (2 * rate**2)


def factorisation_residual(
    problem: "Problem", U: ArrayLike, W: ArrayLike, weight_decay: float
) -> float:
    """Theorem 5.2: WΓWᵀ against UᵀΓU with Γ = E[…] + 2γI, whatever lr and batch are."""
    U, W = factors(U, W)
    found = moments(problem, U @ W)
    k, d = found.G.shape
    Gamma_W = found.inputs(np.eye(k), False) + 2 * weight_decay * np.eye(d)
    Gamma_U = found.outputs(np.eye(d), False) + 2 * weight_decay * np.eye(k)
    return relative_gap(W @ Gamma_W @ W.T, U.T @ Gamma_U @ U)


def hessian_trace(problem: "Problem", U: ArrayLike, W: ArrayLike) -> float:
    """Prop 5.3: half of the trace of the Hessian, and no weight decay in it."""
    return factorisation_hessian_trace(problem, U, W) / 2


def deep_equilibrium(
    V: ArrayLike, sigma_x: ArrayLike, sigma_eps: ArrayLike, widths: Sequence[int]
) -> Weights:
    """Theorem 5.4: c = (Tr S/r)^{1/D}, and first and last layers of the same singular values.

    The product is V, but only with Tr Σx = Tr Σε = r is it an equilibrium.
    """
    V, S_x, S_eps = (checks.array("", value, ndim=(2,)) for value in (V, sigma_x, sigma_eps))
    L, s, Rt = thin_svd(power(S_eps, 0.5) @ V @ power(S_x, 0.5))
    depth = len(widths) + 1
    r = len(s)
    c = (s.sum() / r) ** (1 / depth)
    ends = c * np.sqrt(r * s / s.sum())
    frames = [np.eye(size, r) for size in widths]
    first = frames[0] @ (ends[:, None] * Rt) @ power(S_x, -0.5)
    last = power(S_eps, -0.5) @ (L * ends) @ frames[-1].T
    middle = [c * frames[i + 1] @ frames[i].T for i in range(len(frames) - 1)]
    return Weights([first, *middle, last])


def approximate_charge(trace: float, zeta: float, h: float) -> float:
    """Eq 23: E[C] − C* per unit of κ as Tr[ΣA]/ζh, without the fluctuations."""
    return trace / (zeta * h)
