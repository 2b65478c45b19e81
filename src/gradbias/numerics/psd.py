"""Positive semi-definite matrices: powers, and the mean of two of them."""

import numpy as np

from .linalg import rank_threshold
from .units import exponent, times_power_of_two


def power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    """A power of a symmetric positive semi-definite matrix; negative ones on its range."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    there = values > rank_threshold(np.abs(values), matrix.shape)
    powers = np.zeros_like(values)
    powers[there] = values[there] ** exponent
    return (vectors * powers) @ vectors.T


def rank(matrix: np.ndarray) -> int:
    """The number of eigenvalues that are not zero up to rounding."""
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    return int(np.sum(values > rank_threshold(np.abs(values), matrix.shape)))


def riccati(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The positive P with P·left·P = right, the geometric mean of left⁻¹ and right.

    Where `left` is singular it is the part of P on the range of `left`.
    """
    # In units of each matrix, whole powers of four so that the root of their ratio is exact.
    a, b = (2 * ((exponent(matrix) or 0) // 2) for matrix in (left, right))
    left = times_power_of_two(left, -a)
    right = times_power_of_two(right, -b)
    # Then diagonals of one size: what the two sides measure may differ by many decades.
    scale = np.sqrt(np.diag(left).clip(min=0))
    scale[scale == 0] = 1.0
    A = left / scale[:, None] / scale
    B = right * scale[:, None] * scale
    root = power(A, 0.5)
    inverse = power(A, -0.5)
    P = inverse @ power(root @ B @ root, 0.5) @ inverse
    P = (P + P.T) / 2 / scale[:, None] / scale
    return times_power_of_two(P, (b - a) // 2)
