"""Whitened data and an imbalance that is a multiple of a projection: any number of outputs.

With S = I and Λ = λ on the row space of Z = [V; U1], the matrix G = ZZᵀ obeys a Riccati equation:
G = R(I + ∫RᵀR)⁻¹Rᵀ, R = e^(Ht)Z(0), H = [[0, Bᵀ], [B, 0]] + λJ/2, J = diag(−I, I).
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics.linalg import thin_svd
from .._problem import LeastSquares, Params
from .._units import PARAMETER, TIME, homogeneous
from ._balanced import one_singular_value
from ._coordinates import VisibleLayers, learning, times

SCALAR = 1e-9  # of ‖Z‖³: how far ZΛ may be from λZ


class Grams(NamedTuple):
    """The blocks of G at every time; all that the loss depends on.

    Attributes:
        VV: (…, m, m) VVᵀ.
        UV: (…, r, m) U1Vᵀ; the predictor in the row space is Φ1 times this.
        UU: (…, r, r) U1U1ᵀ.
    """

    VV: np.ndarray
    UV: np.ndarray
    UU: np.ndarray


@homogeneous(dict.fromkeys(("VV", "UV", "UU"), 2 * PARAMETER), t=TIME)
def riccati_solution(problem: LeastSquares, params: Params, t: ArrayLike) -> Grams:
    """Gradient flow on whitened data, in closed form: balanced nets, and Λ = λ·projection.

    Args:
        problem: all singular values equal; the time is its own.
        params: W1 (D, h) and W2 (h, m) with Λ = λ times the projection on the row space of
            [V; U1]; λ = 0 is balanced.
        t: times, of any shape.
    """
    seen = learning(problem, params)
    at = times(t)
    sigma = one_singular_value(seen.split)
    m = len(seen.V)
    modes = _eigenbasis(_generator(seen, sigma), seen.Z)
    clock = seen.split.speed * sigma**2 * at.ravel()
    rows = [_gram(*modes, float(one)) for one in clock]
    G = np.reshape(rows, (*at.shape, len(seen.Z), len(seen.Z)))
    return Grams(G[..., :m, :m], G[..., m:, :m], G[..., m:, m:])


def scalar_imbalance(seen: VisibleLayers) -> float:
    """λ, if Λ is λ times the projection on the row space; else a ValueError."""
    Z = seen.Z
    m = len(seen.V)
    signs = np.repeat([-1.0, 1.0], [m, len(Z) - m])
    size = float(np.linalg.norm(Z))
    if size == 0:
        return 0.0
    unit = Z / size
    moved = unit @ (unit.T @ (signs[:, None] * unit))  # ZΛ with Λ = ZᵀJZ
    value = float(np.sum(moved * unit))
    off = float(np.linalg.norm(moved - value * unit))
    if off > SCALAR:
        raise ValueError(
            "params must have an imbalance that is a multiple of a projection (or zero) for this "
            f"closed form, got one that is off by {off:.3g}, relatively"
        )
    return value * size**2


def _generator(seen: VisibleLayers, sigma: float) -> np.ndarray:
    r, m = seen.split.B.shape
    B = seen.split.B / sigma
    lam = scalar_imbalance(seen) / 2
    return np.block([[-lam * np.eye(m), B.T], [B, lam * np.eye(r)]])


def _gram(rates: np.ndarray, basis: np.ndarray, start: np.ndarray, t: float) -> np.ndarray:
    """G(t) in the eigenbasis of H: rates η, the largest first, and `start` c = basisᵀZ(0)Q.

    With ℓ² = ∫e^(2ηt), f = e^(ηt)/ℓ and K = ℓc: G = f K(I + KᵀK)⁻¹Kᵀ f, and f does not grow. Q
    makes c lower triangular, so that columns of K can have factors of their own, d:
    K(I + KᵀK)⁻¹Kᵀ = K̂(d⁻² + K̂ᵀK̂)⁻¹K̂ᵀ with K = K̂d. Rows of K grow at different rates; only in
    this form do the slow ones keep their digits, and nothing overflows.
    """
    if t == 0 or not start.size:
        return basis @ (start @ start.T) @ basis.T
    log_l = np.maximum(rates, 0) * t + np.log(_mean_decay(np.abs(rates) * t) * t) / 2
    with np.errstate(divide="ignore"):  # zeros of the triangle
        log_K = log_l[:, None] + np.log(np.abs(start))
    log_d = log_K.max(axis=0)
    K = np.sign(start) * np.exp(log_K - log_d)
    outer = np.linalg.qr(np.concatenate([np.diag(np.exp(-log_d)), K])).R
    half = scipy.linalg.solve_triangular(outer.T, K.T, lower=True)
    moved = (basis * np.exp(rates * t - log_l)) @ half.T
    return moved @ moved.T


def _eigenbasis(H: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rates, their basis, and Z in it times the orthogonal Q that makes it triangular."""
    rates, basis = np.linalg.eigh(H)
    rates = rates[::-1]
    basis = basis[:, ::-1]
    U, s, _ = thin_svd(basis.T @ Z)
    return rates, basis, np.linalg.qr((U * s).T).R.T


def _mean_decay(x: np.ndarray) -> np.ndarray:
    """(1 − e^(−2x))/2x, which is 1 at x = 0."""
    small = x < 1e-12
    return np.where(small, 1.0, -np.expm1(-2 * x) / np.where(small, 1.0, 2 * x))
