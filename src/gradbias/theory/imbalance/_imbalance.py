"""The imbalance Λ = U1ᵀU1 − VᵀV: conserved by gradient flow, and what sets its speed."""

from typing import Any, NamedTuple

import numpy as np

from ...numerics import checks
from .._problem import LeastSquares, Params
from .._units import NONE, PARAMETER, TIME, homogeneous
from ._coordinates import VisibleLayers, learning, state


class Signature(NamedTuple):
    """How many eigenvalues of the imbalance are positive and negative.

    At most r are positive and m negative: Λ is a difference of matrices of these ranks.
    """

    positive: int
    negative: int


class Extremes(NamedTuple):
    """The four eigenvalues that certify rates, clipped at zero; indices beyond h give zero.

    Attributes:
        lam_1: the largest eigenvalue of Λ.
        lam_r: its r-th.
        nu_1: the largest eigenvalue of −Λ.
        nu_m: its m-th.
    """

    lam_1: float
    lam_r: float
    nu_1: float
    nu_m: float


def spectrum(seen: VisibleLayers) -> np.ndarray:
    """The eigenvalues of Λ that are not zero by width alone, the largest first."""
    stacked = seen.Z
    m = len(seen.V)
    if stacked.shape[1] > len(stacked):  # the same spectrum in a basis of the row space
        factor: Any = np.linalg.qr(stacked.T, mode="r")
        stacked = factor.T
    V = stacked[:m]
    U1 = stacked[m:]
    return np.linalg.eigvalsh(U1.T @ U1 - V.T @ V)[::-1]


def rounding(seen: VisibleLayers) -> float:
    """Eigenvalues of Λ at or below this are zero up to rounding."""
    return float(np.finfo(np.float64).eps * len(seen.Z) * np.sum(seen.Z**2))


def extremes(seen: VisibleLayers) -> Extremes:
    """The eigenvalues of the imbalance at its two ends."""
    values = spectrum(seen)
    r = len(seen.U1)
    m = len(seen.V)
    values = np.where(np.abs(values) > rounding(seen), values, 0.0)

    def at(sorted_values: np.ndarray, index: int) -> float:
        inside = index <= len(sorted_values)
        return max(float(sorted_values[index - 1]), 0.0) if inside else 0.0

    return Extremes(at(values, 1), at(values, r), at(-values[::-1], 1), at(-values[::-1], m))


@homogeneous(2 * PARAMETER)
def imbalance_spectrum(problem: LeastSquares, params: Params) -> np.ndarray:
    """The eigenvalues of Λ = U1ᵀU1 − VᵀV, the largest first.

    Only the min(h, m + r) that width does not make zero; the others belong between the positive
    and the negative ones. Costs a QR of (h, m + r), never an h×h eigenproblem.

    Args:
        problem: its row space decides which part U1 of W1 counts.
        params: W1 (D, h) and W2 (h, m).
    """
    return spectrum(state(problem, params))


@homogeneous(NONE)
def imbalance_signature(problem: LeastSquares, params: Params) -> Signature:
    """The numbers of positive and negative eigenvalues of Λ, above rounding."""
    seen = state(problem, params)
    values = spectrum(seen)
    zero = rounding(seen)
    return Signature(int(np.sum(values > zero)), int(np.sum(values < -zero)))


@homogeneous(2 * PARAMETER)
def imbalance_level(problem: LeastSquares, params: Params) -> float:
    r"""The level $c = [\lambda_r(\Lambda)]_+ + [\lambda_m(-\Lambda)]_+$ of Theorem 1.

    Zero for balanced nets, and for those that are too narrow: a term whose index exceeds the
    width is zero. Gradient flow converges exponentially when it is positive.

    Args:
        problem: m outputs, and data of rank r.
        params: W1 (D, h) and W2 (h, m).
    """
    ends = extremes(learning(problem, params))
    return ends.lam_r + ends.nu_m


@homogeneous(2 * PARAMETER, lr=TIME)
def imbalance_drift(problem: LeastSquares, params: Params, lr: float) -> np.ndarray:
    r"""What one step of gradient descent adds to Λ, exactly: lr²(∇U1ᵀ∇U1 − ∇Vᵀ∇V), (h, h).

    Args:
        problem: its own weight.
        params: W1 (D, h) and W2 (h, m) before the step.
        lr: the step.
    """
    lr = checks.number("lr", lr, above=0)
    seen = state(problem, params)
    pull = seen.split.speed * lr * (seen.split.sigma[:, None] * seen.E)
    moved_U1 = pull @ seen.V
    moved_V = pull.T @ seen.U1
    return moved_U1.T @ moved_U1 - moved_V.T @ moved_V
