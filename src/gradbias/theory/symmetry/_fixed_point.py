"""λ*: how far to move along a symmetry until decay and noise of its charge balance."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.balance_roots import BalanceRoot, signed_root


class FixedPoint(float):
    """λ* with its derivatives: a number, nan or infinite where there is no finite one.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖².

    Attributes:
        d_sigma2: (m,) ∂λ*/∂sigma2.
        d_theta2: (m,) ∂λ*/∂theta2.
        d_kappa: ∂λ*/∂κ.
        d_weight_decay: ∂λ*/∂γ.
    """

    d_sigma2: np.ndarray
    d_theta2: np.ndarray
    d_kappa: float
    d_weight_decay: float


class FixedPoints(NamedTuple):
    """Many λ* with their derivatives; see `FixedPoint`.

    Attributes:
        value: (…,) λ*.
        d_sigma2: (…, m).
        d_theta2: (…, m).
        d_kappa: (…,).
        d_weight_decay: (…,).
    """

    value: np.ndarray
    d_sigma2: np.ndarray
    d_theta2: np.ndarray
    d_kappa: np.ndarray
    d_weight_decay: np.ndarray


def fixed_point(
    mu: ArrayLike, sigma2: ArrayLike, theta2: ArrayLike, kappa: float, weight_decay: float = 0.0
) -> FixedPoint:
    r"""λ*: where on the orbit $\theta_\lambda = e^{\lambda A}\theta$ the charge's drift is zero.

    $G(\lambda) = -4\gamma\sum_i \mu_i e^{2\lambda\mu_i}\theta_i^2
    + \kappa\sum_i \mu_i e^{-2\lambda\mu_i}\sigma_i^2$ falls, so that its zero is unique; it is
    the least κ Tr Σ + 4γ‖θ‖² on the orbit. With only ±m in the spectrum
    $\lambda^* = \frac{1}{4m}\ln\frac{\kappa a + 4\gamma\|\theta_-\|^2}
    {\kappa b + 4\gamma\|\theta_+\|^2}$, where a and b are the noise where μ is + and −; with
    A = I it is $\frac14 \ln(\kappa\,\mathrm{Tr}\Sigma/4\gamma\|\theta\|^2)$.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖² (γ is half of torch's weight decay).

    It is nan where the drift is zero all along the orbit (no noise, or no entries), +inf where it
    is positive everywhere and −inf where it is negative everywhere. A negative γ is refused: there
    may then be no zero, or many.

    The derivatives are those of the formula. The noise itself depends on θ: along a path,
    dλ*/dθ is `d_theta2`·dθ²/dθ + `d_sigma2`·dσ²/dθ.

    Args:
        mu: (m,) eigenvalues of A.
        sigma2: (m,) the noise nᵢᵀΣnᵢ along its eigenvectors.
        theta2: (m,) the squares (nᵢᵀθ)².
        kappa: lr/S.
        weight_decay: γ ≥ 0.
    """
    found = fixed_points(
        checks.array("mu", mu, ndim=(1,)),
        sigma2,
        theta2,
        kappa,
        checks.number("weight_decay", weight_decay),
    )
    result = FixedPoint(float(found.value))
    result.d_sigma2 = found.d_sigma2
    result.d_theta2 = found.d_theta2
    result.d_kappa = float(found.d_kappa)
    result.d_weight_decay = float(found.d_weight_decay)
    return result


def fixed_points(
    mu: ArrayLike, sigma2: ArrayLike, theta2: ArrayLike, kappa: float, weight_decay: float = 0.0
) -> FixedPoints:
    """`fixed_point` for many symmetries or many points at once, over leading axes.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖².

    Args:
        mu: (m,) or (…, m).
        sigma2: (…, m).
        theta2: (…, m).
        kappa: lr/S.
        weight_decay: γ ≥ 0.
    """
    mu, sigma2, theta2 = spectra(mu, sigma2, theta2)
    kappa = checks.number("kappa", kappa, at_least=0)
    weight_decay = checks.number("weight_decay", weight_decay, at_least=0)
    shape = mu.shape[:-1]
    m = mu.shape[-1]
    rows = [values.reshape(math.prod(shape), m) for values in (mu, sigma2, theta2)]
    # Noise pushes towards larger λ where μ > 0, decay where μ < 0.
    root = signed_root(rows[0], _log(kappa, rows[1]), _log(4 * weight_decay, rows[2]))
    by_noise = _slopes(rows[0], root, 1)
    by_decay = _slopes(rows[0], root, -1)
    return FixedPoints(
        root.x.reshape(shape),
        by_noise(_log(kappa)).reshape(*shape, m),
        by_decay(_log(4 * weight_decay)).reshape(*shape, m),
        by_noise(_log(rows[1])).sum(axis=-1).reshape(shape),
        by_decay(_log(4.0, rows[2])).sum(axis=-1).reshape(shape),
    )


def _log(*factors: np.ndarray | float) -> np.ndarray:
    """The logarithm of a product of absolute values, whose product itself might underflow."""
    with np.errstate(divide="ignore"):
        return np.asarray(sum(np.log(np.abs(f)) for f in factors))


def _slopes(mu: np.ndarray, root: BalanceRoot, sign: int) -> Callable[[np.ndarray], np.ndarray]:
    """The map from logarithms of the factors beside |μ| to the derivatives of λ*."""
    x, level, slope = (values[:, None] for values in root)
    x = np.where(np.isfinite(x), x, np.nan)

    def derivative(log_factor: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # a derivative beyond the largest number is infinite
            return (
                sign
                * np.sign(mu)
                * np.exp(log_factor + _log(mu) - 2 * sign * mu * x - level)
                / slope
            )

    return derivative


def spectra(*values: ArrayLike, names=("mu", "sigma2", "theta2")) -> tuple[np.ndarray, ...]:
    """Eigenvalues and squares along eigenvectors, checked and of one shape."""
    arrays = [checks.array(name, value) for name, value in zip(names, values, strict=True)]
    for name, array in zip(names, arrays, strict=True):
        if array.ndim == 0:
            raise ValueError(f"{name} must be a vector over the eigenbasis of A, got {array}")
        if name != "mu" and np.any(array < 0):
            raise ValueError(f"{name} must not be negative, got {array.min()}")
    try:
        return tuple(np.array(a) for a in np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(f"{n} {a.shape}" for n, a in zip(names, arrays, strict=True))
        raise ValueError(f"vectors over the eigenbasis must be of one size, got {shapes}") from None
