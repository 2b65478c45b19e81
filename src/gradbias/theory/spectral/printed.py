"""Formulas as the paper prints them, wrong or without digits: kept to demonstrate the errata."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ._scalars import asinh_ratio
from ._svd import matrix, nonnegative, positive


def printed_beta_of(alpha: ArrayLike) -> np.ndarray:
    """(I − ααᵀ)⁻¹α, Lemma 3.3 without its 2γ."""
    a = matrix("alpha", alpha)
    return np.linalg.solve(np.eye(len(a)) - a @ a.T, a).reshape(np.shape(alpha))


def printed_singular_value_gradient(sigma: ArrayLike, gamma: float) -> np.ndarray:
    """Of tr(½D asinh(D/γ) − √(D² + γ²)), Theorem 3.2a with its ½ on the first term only."""
    D = checks.array("sigma", sigma)
    gamma = positive(gamma)
    return np.asarray(0.5 * asinh_ratio(D, gamma) - 0.5 * D / np.hypot(D, gamma))


def printed_whitened_trajectory(sigma: ArrayLike, gamma: float, t: ArrayLike) -> np.ndarray:
    """Theorem C.12: exact, but γ/σ* and 1 − σ_α² are differences of numbers near 1."""
    star = nonnegative("sigma", sigma)
    gamma = positive(gamma)
    s = np.hypot(star, gamma)
    E = np.exp(np.multiply.outer(nonnegative("t", t), -2 * s))
    with np.errstate(divide="ignore", invalid="ignore"):
        bracket = (gamma + s - E * (s - gamma)) / (gamma + s + E * (s - gamma))
        a = np.sqrt(1 + gamma**2 / star**2) * bracket - gamma / star
        return np.asarray(2 * gamma * a / (1 - a**2))


def printed_half_time(sigma: ArrayLike, gamma: float) -> np.ndarray:
    """−ln γ/(2σ*), where σ is σ*/(1 + 2σ*) and not σ*/2."""
    return np.asarray(-np.log(positive(gamma)) / (2 * checks.array("sigma", sigma)))


def printed_gd_step(W: ArrayLike, a: ArrayLike, lr: float) -> np.ndarray:
    """The second layer a + lr·Wᵀa of § C.1, whose shapes fit for a square W only."""
    hidden = checks.array("a", a, ndim=(1,))
    square = checks.array("W", W, shape=(len(hidden), len(hidden)))
    return hidden + checks.number("lr", lr, above=0) * (square.T @ hidden)
