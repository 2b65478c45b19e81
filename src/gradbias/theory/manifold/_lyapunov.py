"""The inverse of the Lyapunov operator S → HS + SH, dense."""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import rank_threshold


def lyapunov_inverse(H: ArrayLike, S: ArrayLike, rtol: float = 1e-12) -> np.ndarray:
    """L_H⁻¹(S): the K with HK + KH = S and K = QKQ, Q the projector on the range of H.

    In an eigenbasis of H it is S_ij/(λ_i + λ_j). The functions of this room never form it; it is
    here for small matrices.

    Args:
        H: (D, D), symmetric and positive semi-definite.
        S: (D, D), symmetric, with its range in that of H.
        rtol: eigenvalues of H below this, relative to the largest, are zero.
    """
    A = checks.array("H", H, ndim=(2,))
    D = len(A)
    A = _symmetric("H", checks.array("H", A, shape=(D, D)))
    B = _symmetric("S", checks.array("S", S, shape=(D, D)))
    values, vectors = scipy.linalg.eigh(A)
    least = max(rtol * np.abs(values).max(initial=0.0), rank_threshold(np.abs(values), A.shape))
    if np.any(values < -least):
        raise ValueError(
            f"H must be positive semi-definite, got an eigenvalue of {values[0]:.1e} beside a "
            f"largest one of {values[-1]:.1e}"
        )
    V = vectors[:, values > least]
    kept = values[values > least]
    inside = V.T @ B @ V
    outside = np.linalg.norm(B - V @ inside @ V.T)
    if outside > 1e-8 * np.linalg.norm(B):
        raise ValueError(
            f"S must have its range in that of H, got a part of norm {outside:.1e} outside it: "
            "take QSQ"
        )
    return V @ (inside / (kept[:, None] + kept[None, :])) @ V.T


def _symmetric(name: str, matrix: np.ndarray) -> np.ndarray:
    error = np.abs(matrix - matrix.T).max(initial=0.0)
    if error > 1e-8 * np.abs(matrix).max(initial=0.0):
        raise ValueError(f"{name} must be symmetric, got a difference of {error:.1e} in it")
    return (matrix + matrix.T) / 2
