"""A predictor as a matrix, its singular values, and checks of scales."""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import SVD, norm, rank_threshold


def matrix(name: str, value: ArrayLike) -> np.ndarray:
    """A predictor (d, k), or (d,) with one output, as a matrix."""
    given = checks.array(name, value, ndim=(1, 2))
    if given.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {given.shape}")
    return given.reshape(len(given), -1)


def svd(value: np.ndarray) -> SVD:
    """The thin decomposition, zero singular values included."""
    if value.shape[1] == 1:  # exact for one output, and a norm that does not under- or overflow
        length = norm(value)
        left = value / length if length else np.eye(*value.shape)
        return SVD(left, np.array([length]), np.ones((1, 1)))
    return SVD(*scipy.linalg.svd(value, full_matrices=False))


def positive(gamma: float) -> float:
    """The scale of the init, checked: above 0."""
    return checks.number("gamma", gamma, above=0)


def nonnegative(name: str, value: ArrayLike) -> np.ndarray:
    """Numbers of at least 0, of any shape."""
    array = checks.array(name, value)
    if np.any(array < 0):
        raise ValueError(f"{name} must be at least 0, got {array.min()}")
    return array


def full_rank(W1: np.ndarray) -> SVD:
    """The SVD of a first layer with independent rows; refuse another one."""
    U, s, Vt = scipy.linalg.svd(W1, full_matrices=False)
    if len(s) < len(W1) or not s[-1] > rank_threshold(s, W1.shape):
        raise ValueError(
            f"W1 must have independent rows, rank d = {len(W1)}, or log det W1W1ᵀ has no value; "
            f"got shape {W1.shape} with singular values from {s[0]:.3g} to {s[-1]:.3g}"
        )
    return SVD(U, s, Vt)
