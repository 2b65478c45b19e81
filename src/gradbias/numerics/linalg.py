"""Linear algebra with one rank threshold, shared by everything that splits a space in two."""

import contextlib
import functools
import math
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from .types import Array, Number


@functools.cache
def _libraries(with_scipy: bool) -> ThreadpoolController:
    """The BLAS libraries of this process; to look for them takes 1.6 ms, to use them 0.03.

    SciPy brings one of its own, and may be imported later.
    """
    return ThreadpoolController()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Host linear algebra on one thread.

    On a machine that is busy, and XLA's own threads are enough for that, a second BLAS thread
    waits for its turn at every panel: a QR of 10 000 × 101 takes 2.4 s instead of 0.1 s.
    """
    with _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        yield


class SVD(NamedTuple):
    """The non-zero part of a singular value decomposition, `U * s @ Vt`."""

    U: np.ndarray
    s: np.ndarray
    Vt: np.ndarray

    @property
    def rank(self) -> int:
        """The number of singular values above the threshold."""
        return len(self.s)


def norm(array: np.ndarray) -> float:
    """Frobenius's, of numbers whose squares may be out of range; infinite if it is so itself."""
    largest = float(np.abs(array).max(initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(array / largest))


def spectral_bound(matrix: Array, xp: ModuleType = np) -> Number:
    """The spectral norm or a little more: (Σ σ¹⁶)^(1/16), which takes three products.

    Of a vector, the norm and 1e-150 at least: there a loop of steps has no time to look for the
    largest entry.

    Args:
        matrix: of any size.
        xp: numpy, or jax.numpy inside of compiled code.
    """
    if 1 in matrix.shape:
        vector = matrix.ravel()  # a product is faster than a sum, which adds one by one
        return xp.sqrt(vector @ vector + 1e-300)
    largest = xp.max(xp.abs(matrix), initial=0.0)
    unit = matrix / xp.where(largest > 0, largest, 1.0)  # squares might be out of range
    squares = unit @ unit.T if matrix.shape[0] <= matrix.shape[1] else unit.T @ unit
    fourth = squares @ squares
    eighth = fourth @ fourth
    return largest * xp.sum(eighth * eighth) ** (1 / 16)


def rank_threshold(s: np.ndarray, shape: tuple[int, ...]) -> float:
    """Singular values at or below this are zero up to rounding."""
    return float(np.max(s, initial=0.0) * max(shape, default=0) * np.finfo(np.float64).eps)


def thin_svd(matrix: np.ndarray) -> SVD:
    """The singular value decomposition without the directions that are zero up to rounding.

    Rows and columns of exact zeros (pixels that are always black) have no part in any direction.
    """
    U, s, Vt = np.linalg.svd(matrix, full_matrices=False)
    r = int(np.sum(s > rank_threshold(s, matrix.shape)))
    used = matrix != 0
    U = np.where(used.any(axis=1)[:, None], U[:, :r], 0.0)
    return SVD(U, s[:r], np.where(used.any(axis=0), Vt[:r], 0.0))
