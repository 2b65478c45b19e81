"""Functions of one singular value σ and of γ, without differences that cancel."""

import numpy as np


def above(sigma: float | np.ndarray, gamma: float) -> float | np.ndarray:
    """γ + √(σ² + γ²), the eigenvalues of W1 W1ᵀ."""
    return gamma + np.hypot(sigma, gamma)


def slope(sigma: np.ndarray, gamma: float) -> np.ndarray:
    """σ/(γ + √(σ² + γ²)), the singular values of α; 0 at σ = γ = 0."""
    top = above(sigma, gamma)
    return np.divide(sigma, top, out=np.zeros_like(top), where=top > 0)


def below(sigma: np.ndarray, gamma: float) -> np.ndarray:
    """√(σ² + γ²) − γ, the eigenvalues of W2ᵀ W2, without the difference."""
    return sigma * slope(sigma, gamma)


def potential_rise(sigma: np.ndarray, gamma: float) -> float | np.ndarray:
    """Ψ_γ(σ) − Ψ_γ(0) for each value: ½σ asinh(σ/γ) − ½(√(σ² + γ²) − γ)."""
    fall = sigma * (sigma / (gamma + np.hypot(sigma, gamma)))
    return 0.5 * (sigma * asinh_ratio(sigma, gamma) - fall)


def asinh_ratio(x: np.ndarray, gamma: float) -> np.ndarray:
    """Asinh(x/γ), also where the ratio is beyond float64."""
    with np.errstate(over="ignore"):
        ratio = x / gamma
    far = np.abs(ratio) > 1e100
    size = np.where(far, np.abs(x), 1.0)
    return np.where(
        far, np.copysign(np.log(2 * size) - np.log(gamma), x), np.arcsinh(np.where(far, 0, ratio))
    )


def divergence_from_zero(norm: float, gamma: float) -> float:
    """D_ψ(β, 0) = ψ(β) − ψ(0) as a product: the difference cancels for |β| ≪ γ."""
    top = float(gamma + np.hypot(norm, gamma))
    x = np.sqrt(top)
    x0 = np.sqrt(2 * gamma)
    rise = norm * (norm / top) / (x + x0)  # x − x0
    return float(rise * (2 * x * x + 2 * x * x0 - x0 * x0) / 3)
