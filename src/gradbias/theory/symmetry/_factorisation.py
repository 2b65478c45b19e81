"""Matrix factorisation y = UWx: its gradient noise, the flow of its charges, its curvature.

Everything is in column form: U (k, h), W (h, d), loss ‖UWx − y‖² without ½.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from .._units import NONE, PARAMETER, RATE, TIME, homogeneous
from ._moments import Moments, moments

if TYPE_CHECKING:
    from ...problems import Problem


class FactorNoise(NamedTuple):
    """The noise of the two factors in the space between them, (h, h) each.

    Attributes:
        noise_U: Σ_i Σ_{u_i} over the rows u_i of U, Cov of its gradient.
        noise_W: Σ_j Σ_{w_j} over the columns w_j of W.
    """

    noise_U: np.ndarray
    noise_W: np.ndarray


def factors(U: ArrayLike, W: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Two factors that fit, checked."""
    U = checks.array("U", U, ndim=(2,))
    W = checks.array("W", W, ndim=(2,))
    if U.shape[1] != W.shape[0] or 0 in U.shape + W.shape:
        raise ValueError(f"U (k, h) and W (h, d) must fit, got {U.shape} and {W.shape}")
    return U, W


@homogeneous({"noise_U": 2 * (PARAMETER - TIME), "noise_W": 2 * (PARAMETER - TIME)}, by="U,W")
def factorisation_noise(problem: "Problem", U: ArrayLike, W: ArrayLike) -> FactorNoise:
    r"""Column form y = UWx, loss without ½: the centred noise of one sample's gradient.

    $4 W \Gamma_W W^T$ for U and $4 U^T \Gamma_U U$ for W, with
    $\Gamma_W = E[\|r\|^2 xx^T] - G^T G$, $\Gamma_U = E[\|x\|^2 rr^T] - GG^T$,
    $G = E[r x^T]$ and r = UWx − y. A loss of c‖r‖² for each sample (c is a Regression's weight
    times n, or a Population's weight) multiplies by c².

    Args:
        problem: a Regression or a Population.
        U: (k, h).
        W: (h, d).

    Returns:
        noise_U and noise_W, (h, h).
    """
    U, W = factors(U, W)
    found = moments(problem, U @ W)
    k, d = found.G.shape
    four = 4 * found.scale**2
    noise_U = four * W @ found.inputs(np.eye(k)) @ W.T
    return FactorNoise(noise_U, four * U.T @ found.outputs(np.eye(d)) @ U)


@homogeneous(2 * PARAMETER - TIME, by="U,W", kappa=TIME, weight_decay=RATE, lr=TIME)
def factorisation_flow(
    problem: "Problem",
    U: ArrayLike,
    W: ArrayLike,
    kappa: float,
    weight_decay: float = 0.0,
    lr: float | None = None,
) -> np.ndarray:
    r"""Column form y = UWx: Prop 5.1, corrected, d(UᵀU − WWᵀ)/dt as an (h, h) matrix.

    $\kappa(\mathrm{noise}_U - \mathrm{noise}_W) - 4\gamma(U^TU - WW^T)$: the charge of B is
    tr(B·) of it. Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖², t = steps·lr.

    Args:
        problem: a Regression or a Population.
        U: (k, h).
        W: (h, d).
        kappa: lr/S.
        weight_decay: γ ≥ 0.
        lr: with it, finite steps along the mean gradient count too.
    """
    U, W = factors(U, W)
    noise_U, noise_W = factorisation_noise(problem, U, W)
    kappa = checks.number("kappa", kappa, at_least=0)
    flow = kappa * (noise_U - noise_W)
    flow -= 4 * checks.number("weight_decay", weight_decay, at_least=0) * (U.T @ U - W @ W.T)
    if lr is not None:
        found = moments(problem, U @ W)
        slope_U = found.G @ W.T
        slope_W = U.T @ found.G
        mean = slope_U.T @ slope_U - slope_W @ slope_W.T
        flow += checks.number("lr", lr, at_least=0) * 4 * found.scale**2 * mean
    return flow


@homogeneous(RATE, by="U,W", kappa=TIME)
def rank_one_rate(problem: "Problem", U: ArrayLike, W: ArrayLike, kappa: float) -> float:
    r"""Column form y = UWx with one input and one output: the rate at which UᵀU − WWᵀ decays.

    $4\kappa\,\mathrm{Var}[(UWx - y)x]$ per unit of t = steps·lr; a step of size lr with batch
    gradient g in v = UW multiplies it by 1 − lr²g², exactly. In the end W = ±Uᵀ, and all UᵢWᵢ
    have one sign. Convention: κ = lr/S, loss without ½.

    Args:
        problem: with d = k = 1.
        U: (1, h).
        W: (h, 1).
        kappa: lr/S.
    """
    U, W = factors(U, W)
    if (U.shape[0], W.shape[1]) != (1, 1):
        raise ValueError(f"U must be (1, h) and W (h, 1), got {U.shape} and {W.shape}")
    found = moments(problem, U @ W)
    variance = found.inputs(np.eye(1))[0, 0]
    return float(4 * found.scale**2 * checks.number("kappa", kappa, at_least=0) * variance)


def gammas(
    found: Moments, kappa: float, weight_decay: float, centred: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Theorem 5.2, corrected: κΓ + γI of inputs and of outputs, times c² of the loss c‖r‖²."""
    k, d = found.G.shape
    per = checks.number("kappa", kappa, at_least=0) * found.scale**2
    weight_decay = checks.number("weight_decay", weight_decay, at_least=0)
    Gamma_W = per * found.inputs(np.eye(k), centred) + weight_decay * np.eye(d)
    return Gamma_W, per * found.outputs(np.eye(d), centred) + weight_decay * np.eye(k)


@homogeneous(NONE, by="U,W", kappa=TIME, weight_decay=RATE)
def factorisation_residual(
    problem: "Problem",
    U: ArrayLike,
    W: ArrayLike,
    kappa: float = 1.0,
    weight_decay: float = 0.0,
) -> float:
    r"""Column form y = UWx: how far a factorisation is from its noise equilibrium (Thm 5.2).

    $\|W\Gamma_W W^T - U^T\Gamma_U U\|_F$ over the geometric mean of the two norms, with
    $\Gamma = \kappa\Gamma^{\mathrm{centred}} + \gamma I$. At the minimum of a Population
    this is Eq 14: $W\Sigma_x W^T/\mathrm{Tr}\Sigma_x$ equals
    $U^T\Sigma_\varepsilon U/\mathrm{Tr}\Sigma_\varepsilon$.
    Convention: κ = lr/S, objective L + γ‖θ‖², loss without ½.

    Args:
        problem: a Regression or a Population.
        U: (k, h).
        W: (h, d).
        kappa: lr/S.
        weight_decay: γ ≥ 0.
    """
    U, W = factors(U, W)
    Gamma_W, Gamma_U = gammas(moments(problem, U @ W), kappa, weight_decay)
    return relative_gap(W @ Gamma_W @ W.T, U.T @ Gamma_U @ U)


def relative_gap(one: np.ndarray, other: np.ndarray) -> float:
    """‖one − other‖ over the geometric mean of their norms; 0 if both are zero."""
    sizes = [float(np.linalg.norm(m)) for m in (one, other)]
    gap = float(np.linalg.norm(one - other))
    if gap == 0:
        return 0.0
    mean = np.sqrt(sizes[0]) * np.sqrt(sizes[1])
    return gap / mean if mean > 0 else float("inf")


@homogeneous(RATE, by="U,W", weight_decay=RATE)
def factorisation_hessian_trace(
    problem: "Problem", U: ArrayLike, W: ArrayLike, weight_decay: float = 0.0
) -> float:
    r"""Column form y = UWx, loss without ½: Prop 5.3, corrected, the trace of the Hessian.

    $2(k\,\mathrm{tr}\,W\Sigma_x W^T + \|U\|^2\,\mathrm{Tr}\Sigma_x) + 2\gamma(d + k)h$, at any
    point, with Σx the second moment; a loss of c‖r‖² multiplies the first part by c. Convention:
    objective L + γ‖θ‖².

    Args:
        problem: a Regression or a Population.
        U: (k, h).
        W: (h, d).
        weight_decay: γ ≥ 0.
    """
    U, W = factors(U, W)
    found = moments(problem, U @ W)
    k, h = U.shape
    d = W.shape[1]
    S = found.sigma_x
    data = k * np.sum((W @ S) * W) + np.sum(U * U) * np.trace(S)
    return float(
        2 * found.scale * data
        + 2 * checks.number("weight_decay", weight_decay, at_least=0) * (d + k) * h
    )
