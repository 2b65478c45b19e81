"""Linear algebra with one rank threshold, shared by everything that splits a space in two."""

from typing import NamedTuple

import numpy as np
import scipy.linalg


class SVD(NamedTuple):
    """The non-zero part of a singular value decomposition, `U * s @ Vt`."""

    U: np.ndarray
    s: np.ndarray
    Vt: np.ndarray

    @property
    def rank(self) -> int:
        """The number of singular values above the threshold."""
        return len(self.s)


def rank_threshold(s: np.ndarray, shape: tuple[int, ...]) -> float:
    """Singular values at or below this are zero up to rounding."""
    return float(np.max(s, initial=0.0) * max(shape, default=0) * np.finfo(np.float64).eps)


def thin_svd(matrix: np.ndarray) -> SVD:
    """The singular value decomposition without the directions that are zero up to rounding."""
    U, s, Vt = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesdd")
    r = int(np.sum(s > rank_threshold(s, matrix.shape)))
    return SVD(U[:, :r], s[:r], Vt[:r])
