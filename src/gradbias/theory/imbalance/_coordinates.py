"""The coordinates of the problem: what the data see of a two-layer net, and what they do not.

The paper writes the predictor as Θ = UVᵀ; here U = W1 and Vᵀ = W2. With X = W diag(σ) Φ1ᵀ it
falls apart into U1 = Φ1ᵀU, which learns, and U2 = Φ2ᵀU, which gradient flow never moves.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...problems import Population, Regression

Params = Mapping[str, ArrayLike]
Problem = Regression | Population


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


class State(NamedTuple):
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


def split(problem: Problem) -> Split:
    """The row space of the data, its complement, and the labels in between.

    Args:
        problem: Regression, or Population (its X is the root of the covariance). The rank is
            that of the problem's own singular value decomposition.
    """
    _known(problem)
    U, s, Vt = problem.svd
    if isinstance(problem, Population):
        s = np.sqrt(s)
        B = s[:, None] * (Vt @ problem.theta_star)
    else:
        B = U.T @ problem.labels
    with np.errstate(over="ignore", under="ignore"):  # a loss may be beyond float64
        return Split(Vt.T, s, B, float(problem.weight), problem.min_loss)


def _known(problem: Problem) -> None:
    if not isinstance(problem, (Regression, Population)):
        raise ValueError(
            f"problem must be a Regression or a Population, got {type(problem).__name__}"
        )


def layers(problem: Problem, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """W1 (D, h) and W2 (h, m) of a two-layer net for this problem, checked."""
    _known(problem)
    return two_layers(params, problem.d, problem.k)


def two_layers(
    params: Params, d: int | None = None, k: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """W1 (d, h) and W2 (h, k) of a two-layer net; None stands for any size."""
    if not isinstance(params, Mapping) or not {"W1", "W2"} <= set(params):
        got = list(params) if isinstance(params, Mapping) else type(params).__name__
        raise ValueError(
            f"params must be a dict with W1 and W2 of a two-layer net, got {got!r:.80}"
        )
    W1 = checks.array("params['W1']", params["W1"], shape=(d, None))
    W2 = checks.array("params['W2']", params["W2"], shape=(W1.shape[1], k))
    if W1.shape[1] == 0:
        raise ValueError("params must have a width of at least 1, got 0")
    return W1, W2


def state(problem: Problem, params: Params) -> State:
    """What the data see of these parameters."""
    parts = split(problem)
    W1, W2 = layers(problem, params)
    with np.errstate(all="ignore"):
        seen = State(parts, parts.Phi1.T @ W1, W2.T.copy())
        largest = np.sum(parts.sigma) ** 2 * np.sum(seen.Z**2)  # bounds what is multiplied later
        if not np.isfinite([largest, *seen.E.ravel()]).all():
            raise ValueError(
                "params are too large: with this problem's X and Y, products of layers leave the "
                f"range of float64 (largest weight {max(np.abs(W1).max(), np.abs(W2).max()):.3g})"
            )
    return seen


def learning(problem: Problem, params: Params) -> State:
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
