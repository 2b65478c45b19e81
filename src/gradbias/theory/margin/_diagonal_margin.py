"""The margin problem of diagonal nets between ℓ2 and ℓ1 (Moroshko et al. 2020)."""

from typing import NamedTuple

import numpy as np

from ...numerics import checks
from ...numerics.constants import sealed
from ...problems import Classification
from ._hard_margin import need_classes

CLOSE = 1e-9


class DiagonalMargin(NamedTuple):
    """The limit of w/α² of the net u² − v² from u = v = α, where ℓ/α² = μ and α → ∞.

    Attributes:
        w: argmin Σq(w_j) with Zw ≥ μ, q' = ¼ asinh(w/2).
        multipliers: λ ≥ 0 with w = 2 sinh(4Zᵀλ).
        residual: how far margins are below μ, or samples with weight off it; relative to μ.
    """

    w: np.ndarray
    multipliers: np.ndarray
    residual: float


def diagonal_margin(problem: Classification, mu: float) -> DiagonalMargin:
    """The separator of a diagonal net at the scale μ: ℓ2's for small μ, ℓ1's for large.

    Args:
        problem: separable, of two classes.
        mu: −log L over α².
    """
    problem = need_classes(problem)
    mu = checks.number("mu", mu, above=0)
    if not problem.vector:
        raise ValueError("problem must have two classes and one output, got cross_entropy")
    if not problem.separability.separable:
        raise ValueError(f"diagonal_margin: {problem.separability.sentence}")
    Z = problem.constraints
    multipliers = _solved(Z, mu)
    w = 2 * np.sinh(4 * (Z.T @ multipliers))
    margins = Z @ w / mu
    share = multipliers / multipliers.max()
    residual = max(1 - float(margins.min()), float(np.max(share * np.abs(margins - 1))), 0.0)
    return sealed(DiagonalMargin(w, multipliers, residual))


def _solved(Z: np.ndarray, mu: float) -> np.ndarray:
    """Damped Newton on log-barriered duals is not needed: an active set around Newton is.

    max over λ ≥ 0 of μΣλ − ½Σcosh 4(Zᵀλ)_j, concave.
    """
    n = len(Z)
    lam = np.zeros(n)

    def dual(lam: np.ndarray) -> float:
        with np.errstate(over="ignore"):
            return float(mu * lam.sum() - 0.5 * np.cosh(4 * (Z.T @ lam)).sum())

    for _ in range(1000):
        inner = 4 * (Z.T @ lam)
        slope = mu - Z @ (2 * np.sinh(inner))
        free = (lam > 0) | (slope > 0)
        if np.abs(slope[free]).max(initial=0.0) <= CLOSE * 1e-4 * mu:
            break
        rows = Z[free]
        hessian = 8 * (rows * np.cosh(inner)[None, :]) @ rows.T
        step = np.zeros(n)
        step[free] = np.linalg.lstsq(hessian, slope[free], rcond=1e-15)[0]
        size = 1.0
        while dual(_at(lam, step, size)) < dual(lam) and size > 1e-14:
            size /= 2
        lam = _at(lam, step, size)
    return lam


def _at(lam: np.ndarray, step: np.ndarray, size: float) -> np.ndarray:
    """A step, stopped at zero."""
    return np.maximum(lam + size * step, 0.0)
