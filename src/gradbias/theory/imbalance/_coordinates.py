"""The coordinates of the problem: what the data see of a two-layer net, and what they do not.

The paper writes the predictor as Θ = UVᵀ; here U = W1 and Vᵀ = W2. With X = W diag(σ) Φ1ᵀ it
falls apart into U1 = Φ1ᵀU, which learns, and U2 = Φ2ᵀU, which gradient flow never moves.
"""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from .._problem import LeastSquares, Params, layers_of, singular_basis


@dataclass(frozen=True, eq=False)
class Split:
    """A problem in the singular basis of its data.

    Attributes:
        Phi1: (D, r) orthonormal basis of the row space.
        sigma: (r,) singular values of X, the largest first; the paper's λ_i(Σ_x) is σ_i².
        B: (r, m) labels in the left singular basis, WᵀY.
        weight: the factor in front of the sum of squares.
        min_loss: the least loss L* of any linear predictor.
    """

    Phi1: np.ndarray
    sigma: np.ndarray
    B: np.ndarray
    weight: float
    min_loss: float

    @property
    def rank(self) -> int:
        """The number r of directions that the data see."""
        return len(self.sigma)

    @functools.cached_property
    def Phi2(self) -> np.ndarray:
        """(D, D − r) orthonormal basis of the directions that the data do not see."""
        complete = np.linalg.qr(self.Phi1, mode="complete").Q
        return complete[:, self.rank :]

    @property
    def S(self) -> np.ndarray:
        """(r,) the diagonal of the paper's Σ_x: squares of the singular values."""
        return self.sigma**2

    @property
    def speed(self) -> float:
        """The problem's own time runs this many times faster than that of ½‖Y − XΘ‖²."""
        return 2 * self.weight


class VisibleLayers(NamedTuple):
    """The part of a two-layer net that learns, with the problem's coordinates."""

    split: Split
    U1: np.ndarray
    V: np.ndarray

    @property
    def Z(self) -> np.ndarray:
        """(m + r, h), V above U1: all that moves."""
        return np.concatenate([self.V, self.U1])

    @property
    def E(self) -> np.ndarray:
        """(r, m), the error B − diag(σ) U1Vᵀ; the loss is L* + weight·‖E‖²."""
        return self.split.B - self.split.sigma[:, None] * (self.U1 @ self.V.T)


def split(problem: LeastSquares) -> Split:
    """The row space of the data, its complement, and the labels in between.

    Args:
        problem: Regression, or Population (its X is the root of the covariance). The rank is
            that of the problem's own singular value decomposition.
    """
    view = singular_basis(problem)
    with np.errstate(over="ignore", under="ignore"):  # a loss may be beyond float64
        return Split(view.basis, view.s, view.labels, float(problem.weight), problem.min_loss)


def state(problem: LeastSquares, params: Params) -> VisibleLayers:
    """What the data see of these parameters."""
    parts = split(problem)
    W1, W2 = layers_of(problem, params)
    with np.errstate(all="ignore"):
        seen = VisibleLayers(parts, parts.Phi1.T @ W1, W2.T.copy())
        largest = np.sum(parts.sigma) ** 2 * np.sum(seen.Z**2)  # bounds what is multiplied later
        if not np.isfinite([largest, *seen.E.ravel()]).all():
            raise ValueError(
                "params are too large: with this problem's X and Y, products of layers leave the "
                f"range of float64 (largest weight {max(np.abs(W1).max(), np.abs(W2).max()):.3g})"
            )
    return seen


def learning(problem: LeastSquares, params: Params) -> VisibleLayers:
    """The same, where something is to be learned: rates have no meaning without data."""
    seen = state(problem, params)
    if seen.split.rank == 0:
        raise ValueError("problem must have data that are not all zero: rank 0 has no rate")
    return seen


def log(number: float) -> float:
    """The natural logarithm, −∞ at zero."""
    return math.log(number) if number > 0 else -math.inf


def times(t: ArrayLike) -> np.ndarray:
    """Times, finite and not negative."""
    result = checks.array("t", t)
    if (result < 0).any():
        raise ValueError(f"t must not be negative, got {result.min()}")
    return result
