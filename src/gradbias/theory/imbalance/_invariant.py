"""Where the limit is the solution of least norm, and how far from it the flow can end.

Θ(∞) = Θ̂ + Φ2 U2 V(∞)ᵀ with Θ̂ of least norm, so the bias is ‖U2V(∞)ᵀ‖; U2 never moves.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...numerics.linalg import norm, thin_svd
from .._problem import LeastSquares, Params, layers_of
from .._units import PARAMETER, LogOf, homogeneous
from ._coordinates import learning, log, state
from ._rates import growth


@dataclass(frozen=True)
class BiasBound:
    r"""Bounds on the distance of the limit from the solution of least norm, as logarithms.

    Attributes:
        growth: θ, a bound on $\int\|S^{1/2}E\|dt$.
        log_simple: of $e^\theta\|Z_r(0)\|_F$, with both blocks in one norm.
        log_bound: of $\cosh\theta\,\|VU_2^T\|_F + \sinh\theta\,\|U_1U_2^T\|_F$, never larger.
    """

    growth: float
    log_simple: float
    log_bound: float

    @property
    def bound(self) -> float:
        """The sharper of the two; infinite when it is beyond float64."""
        return math.exp(self.log_bound) if self.log_bound < 709 else math.inf


@homogeneous(PARAMETER)
def invariant_projection(problem: LeastSquares, params: Params) -> dict[str, np.ndarray]:
    """The nearest parameters in the invariant set VU2ᵀ = 0, U1U2ᵀ = 0 that share U1 and V.

    From there gradient flow, and gradient descent with any step that converges, end at the
    solution of least norm (Proposition 1). Only the part of W1 outside the row space moves; it
    becomes zero when the net is not wider than what it learns.

    Args:
        problem: its row space decides what is outside.
        params: W1 (D, h) and W2 (h, m).

    Returns:
        W1 and W2.
    """
    W1, W2 = layers_of(problem, params)
    Phi1 = state(problem, params).split.Phi1
    inside = Phi1 @ (Phi1.T @ W1)
    outside = W1 - inside
    used = thin_svd(np.concatenate([W2.T, Phi1.T @ W1])).Vt
    return {"W1": inside + outside - (outside @ used.T) @ used, "W2": W2}


@homogeneous(2 * PARAMETER)
def invariant_residual(problem: LeastSquares, params: Params) -> np.ndarray:
    """Zr, (m + r, D − r): VU2ᵀ above U1U2ᵀ; zero on the invariant set."""
    seen = state(problem, params)
    W1, _ = layers_of(problem, params)
    return seen.Z @ (seen.split.Phi2.T @ W1).T


@homogeneous({"log_simple": LogOf(2 * PARAMETER), "log_bound": LogOf(2 * PARAMETER)})
def bias_bound(problem: LeastSquares, params: Params) -> BiasBound:
    """How far from the solution of least norm gradient flow can end, from its start alone.

    Args:
        problem: Regression or Population; its weight does not matter.
        params: W1 (D, h) and W2 (h, m) at time 0. Bounds are infinite if they are balanced.
    """
    seen = learning(problem, params)
    Zr = invariant_residual(problem, params)
    theta = growth(seen)
    m = len(seen.V)
    sharp = np.logaddexp(
        _times(_log_cosh(theta), norm(Zr[:m])), _times(_log_sinh(theta), norm(Zr[m:]))
    )
    return BiasBound(theta, _times(theta, norm(Zr)), float(sharp))


def _times(log_factor: float, size: float) -> float:
    """The logarithm of a product; what is zero stays zero, however large the factor."""
    return log_factor + log(size) if size > 0 else -math.inf


def _log_cosh(x: float) -> float:
    return x - math.log(2) + math.log1p(math.exp(-2 * x))


def _log_sinh(x: float) -> float:
    return x - math.log(2) + math.log(-math.expm1(-2 * x)) if x > 0 else -math.inf
