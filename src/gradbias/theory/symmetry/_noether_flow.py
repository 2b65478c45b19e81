"""The Noether flow of one charge: its mean motion at a point, and along the orbit of a point."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ._fixed_point import spectra


class ChargeVelocity(float):
    """dC/dt, a number, with its causes.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖², t = steps·lr.

    Attributes:
        charge: C.
        decay: −4γC.
        noise: κ Tr[ΣA].
        gd: lr·ḡᵀAḡ, of finite steps along the mean gradient; 0 where it was left out.
    """

    charge: float
    decay: float
    noise: float
    gd: float


def noether_flow(
    mu: ArrayLike,
    sigma2: ArrayLike,
    theta2: ArrayLike,
    kappa: float,
    weight_decay: float = 0.0,
    mean_gradient2: ArrayLike | None = None,
    lr: float | None = None,
) -> ChargeVelocity:
    r"""$dC/dt = -4\gamma C + \kappa\,\mathrm{Tr}[\Sigma A] + lr\,\bar g^T A \bar g$ of one charge.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖², t = steps·lr. Without decay, and with
    A ⪰ 0, C never falls.

    Args:
        mu: (m,) eigenvalues of A.
        sigma2: (m,) the noise nᵢᵀΣnᵢ of one sample's gradient along its eigenvectors.
        theta2: (m,) the squares (nᵢᵀθ)².
        kappa: lr/S.
        weight_decay: γ ≥ 0.
        mean_gradient2: (m,) the squares (nᵢᵀḡ)² of the mean gradient, for the last term, which
            belongs to finite steps and is absent from the stochastic differential equation.
        lr: the learning rate; needed together with it.
    """
    mu, sigma2, theta2 = spectra(mu, sigma2, theta2)
    kappa = checks.number("kappa", kappa, at_least=0)
    weight_decay = checks.number("weight_decay", weight_decay, at_least=0)
    if (mean_gradient2 is None) != (lr is None):
        given = "lr" if mean_gradient2 is None else "mean_gradient2"
        raise ValueError(f"mean_gradient2 and lr must be given together, got only {given}")
    gd = 0.0
    if mean_gradient2 is not None:
        squares = checks.array("mean_gradient2", mean_gradient2, shape=mu.shape)
        gd = checks.number("lr", lr, at_least=0) * float(mu @ squares)
    charge = float(mu @ theta2)
    noise = kappa * float(mu @ sigma2)
    return _flow(charge, -4 * weight_decay * charge, noise, gd)


def _flow(charge: float, decay: float, noise: float, gd: float) -> ChargeVelocity:
    result = ChargeVelocity(decay + noise + gd)
    result.charge = charge
    result.decay = decay
    result.noise = noise
    result.gd = gd
    return result


def flow_by_method(
    mu: ArrayLike,
    sigma2: ArrayLike,
    theta2: ArrayLike,
    mean_gradient2: ArrayLike,
    lr: float,
    batch_size: int,
    weight_decay: float = 0.0,
) -> dict[str, ChargeVelocity]:
    """What moves a charge under gradient flow, GD, SGD and SGD's differential equation.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖², t = steps·lr. Gradient flow conserves C,
    but for decay; GD adds lr·ḡᵀAḡ; the differential equation adds κ Tr[ΣA]; SGD adds both.

    Args:
        mu: (m,) eigenvalues of A.
        sigma2: (m,) the noise of one sample's gradient along its eigenvectors.
        theta2: (m,) the squares (nᵢᵀθ)².
        mean_gradient2: (m,) the squares (nᵢᵀḡ)².
        lr: learning rate.
        batch_size: S, drawn with replacement.
        weight_decay: γ ≥ 0.

    Returns:
        The flow by "GF", "GD", "SGD" and "SDE".
    """
    batch_size = checks.integer("batch_size", batch_size, at_least=1)
    lr = checks.number("lr", lr, above=0)
    full = noether_flow(mu, sigma2, theta2, lr / batch_size, weight_decay, mean_gradient2, lr)
    charge = full.charge
    decay = full.decay
    noise = full.noise
    gd = full.gd
    return {
        "GF": _flow(charge, decay, 0.0, 0.0),
        "GD": _flow(charge, decay, 0.0, gd),
        "SGD": full,
        "SDE": _flow(charge, decay, noise, 0.0),
    }


def orbit_charge(lam: ArrayLike, mu: ArrayLike, theta2: ArrayLike) -> np.ndarray | float:
    r"""C on the orbit, $\sum_i \mu_i e^{2\lambda\mu_i}\theta_i^2$, for numbers or arrays λ.

    Args:
        lam: λ, any shape.
        mu: (m,) eigenvalues of A.
        theta2: (m,) the squares (nᵢᵀθ)² at λ = 0.
    """
    mu, theta2 = spectra(mu, theta2, names=("mu", "theta2"))
    return np.exp(2 * _outer(lam, mu)) @ (mu * theta2)


def orbit_flow(
    lam: ArrayLike,
    mu: ArrayLike,
    sigma2: ArrayLike,
    theta2: ArrayLike,
    kappa: float,
    weight_decay: float = 0.0,
) -> np.ndarray | float:
    r"""G(λ), the drift of C on the orbit: zero at λ*, and −½ dΦ/dλ of `orbit_potential`.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖².

    Args:
        lam: λ, any shape.
        mu: (m,) eigenvalues of A.
        sigma2: (m,) the noise along its eigenvectors at λ = 0.
        theta2: (m,) the squares (nᵢᵀθ)² at λ = 0.
        kappa: lr/S.
        weight_decay: γ.
    """
    mu, sigma2, theta2 = spectra(mu, sigma2, theta2)
    power = 2 * _outer(lam, mu)
    return kappa * (np.exp(-power) @ (mu * sigma2)) - 4 * weight_decay * (
        np.exp(power) @ (mu * theta2)
    )


def orbit_potential(
    lam: ArrayLike,
    mu: ArrayLike,
    sigma2: ArrayLike,
    theta2: ArrayLike,
    kappa: float,
    weight_decay: float = 0.0,
) -> np.ndarray | float:
    r"""Φ(λ) = κ Tr Σ + 4γ‖θ‖² on the orbit: strictly convex, and least at λ*.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖².

    Args:
        lam: λ, any shape.
        mu: (m,) eigenvalues of A.
        sigma2: (m,) the noise along its eigenvectors at λ = 0.
        theta2: (m,) the squares (nᵢᵀθ)² at λ = 0.
        kappa: lr/S.
        weight_decay: γ.
    """
    mu, sigma2, theta2 = spectra(mu, sigma2, theta2)
    power = 2 * _outer(lam, mu)
    return kappa * (np.exp(-power) @ sigma2) + 4 * weight_decay * (np.exp(power) @ theta2)


def moved_noise(sigma: ArrayLike, A: ArrayLike, lam: float) -> np.ndarray:
    r"""Lemma B.1: $\Sigma(e^{\lambda A}\theta) = e^{-\lambda A}\,\Sigma(\theta)\,e^{-\lambda A}$.

    Args:
        sigma: (D, D) covariance of one sample's gradient at θ.
        A: (D, D) symmetric generator.
        lam: λ.
    """
    A = checks.array("A", A, ndim=(2,))
    sigma = checks.array("sigma", sigma, shape=A.shape)
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    back = (vectors * np.exp(-checks.number("lam", lam) * values)) @ vectors.T
    return back @ sigma @ back


def _outer(lam: ArrayLike, mu: np.ndarray) -> np.ndarray:
    return checks.array("lam", lam)[..., None] * mu
