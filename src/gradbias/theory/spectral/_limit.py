"""Where gradient flow from $I_γ$ ends, and the conditions that certify it (Theorem 3.1)."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ...numerics import checks
from .._problem import LeastSquares, force, layers_of, least_squares
from .._units import NONE, PREDICTOR, homogeneous
from ._curvature import hessian_trace_at_interpolation, sharpness_at_interpolation
from ._layers import Gram, LayerValues, alpha_of, limit_gram, limit_singular_values
from ._scalars import above
from ._svd import full_rank, positive, svd


class KKT(NamedTuple):
    """How far parameters are from the minimum of the potential; each is relative.

    Attributes:
        feasibility: of Xβ = Y (of the normal equations if no predictor fits).
        P1: of α = (W1⁺)ᵀ W2 lying in span Xᵀ, and of W2 = W1ᵀ α.
        P2: of W1 − 2γ(W1⁺)ᵀ = α W2ᵀ.
    """

    feasibility: float
    P1: float
    P2: float


@dataclasses.dataclass(frozen=True, eq=False)
class SpectralLimit:
    """The limit of gradient flow from $I_γ$.

    Attributes:
        theta: the predictor β∞, of the shape that the labels suggest: the one of least norm.
        gamma: the scale of the init.
        alpha: (d, k), the dual variable, in span Xᵀ.
        kkt: the residuals of the conditions of Proposition C.5.
        problem: what was fitted.
    """

    theta: np.ndarray
    gamma: float
    alpha: np.ndarray
    kkt: KKT
    problem: LeastSquares

    @property
    def residual(self) -> float:
        """The largest of the residuals in `kkt`."""
        return max(self.kkt)

    @property
    def singular_values(self) -> LayerValues:
        """Of W1 (d values) and of W2 (min(d, k) values)."""
        beta = self.problem.as_predictor(self.theta)
        return limit_singular_values(beta, self.gamma, self.problem.d)

    @functools.cached_property
    def gram(self) -> Gram:
        """M = W1 W1ᵀ and N = W2ᵀ W2; the layers are these up to a rotation of hidden units."""
        return limit_gram(self.theta, self.gamma)

    @property
    def potential(self) -> float:
        """The least ½‖W1‖² + ½‖W2‖² − γ log det W1W1ᵀ of all interpolators."""
        squares = self.singular_values.W1**2  # γ + s, one for each input
        return float(np.sum(squares - self.gamma - self.gamma * np.log(squares)))

    @property
    def sharpness(self) -> float:
        """The largest eigenvalue of the Hessian of the loss in the parameters."""
        return sharpness_at_interpolation(self.problem, self.params())

    @property
    def hessian_trace(self) -> float:
        """The trace of the Hessian of the loss in the parameters."""
        return hessian_trace_at_interpolation(self.problem, self.params())

    def params(self) -> dict[str, np.ndarray]:
        """One net of width d in the orbit of the limit: W1 = M^{1/2}, W2 = M^{-1/2} β.

        A run that starts from W1 = √(2γ)P ends at W1 O, OᵀW2 with an orthogonal (d, width) O.
        """
        U, sigma, Vt = svd(self.problem.as_predictor(self.theta))
        first = np.sqrt(above(sigma, self.gamma))
        base = np.sqrt(2 * self.gamma)
        W1 = base * np.eye(self.problem.d) + (U * (first - base)) @ U.T
        return {"W1": W1, "W2": (U * (sigma / first)) @ Vt}


def spectral_limit(problem: LeastSquares, gamma: float) -> SpectralLimit:
    r"""The limit of gradient flow from $I_γ$ (Theorem 3.1 and Corollary 3.1).

    The predictor is the minimiser of least norm for every γ; γ shapes the layers alone. They
    are a global minimiser of ½‖W1‖² + ½‖W2‖² − γ log det W1W1ᵀ among all interpolators, unique
    up to a rotation of the hidden units.

    Args:
        problem: a Regression or a Population; labels that cannot be fitted are allowed.
        gamma: the scale of the init, above 0; 1e-100 works.
    """
    gamma = positive(gamma)
    beta = least_squares(problem).as_predictor(problem.min_norm)
    alpha = alpha_of(beta, gamma)
    return SpectralLimit(
        problem.at_edge(beta), gamma, alpha, _closed(problem, beta, gamma), problem
    )


@homogeneous(NONE, by="beta", beta=PREDICTOR, gamma=PREDICTOR)
def _closed(problem: LeastSquares, beta: np.ndarray, gamma: float) -> KKT:
    """The residuals in the singular basis of β, where a small γ costs no digits."""
    U, sigma, Vt = svd(beta)
    values = limit_singular_values(beta, gamma, problem.d)
    first = values.W1[: len(sigma)]
    second = values.W2
    dual = second / first  # W2 = W1ᵀ α in the singular basis
    off = np.abs(first - 2 * gamma / first - dual * second) / first
    return KKT(_feasibility(problem, beta), _outside(problem, (U * dual) @ Vt), float(np.max(off)))


@homogeneous(NONE, gamma=PREDICTOR)
def kkt_residual(problem: LeastSquares, params: Mapping[str, Any], gamma: float) -> KKT:
    """How far a net is from the minimum of the potential over interpolators (Prop C.5).

    It divides by the singular values of W1, so its own rounding is 1e-16·‖W1‖/σ_min(W1).

    Args:
        problem: a Regression or a Population.
        params: {"W1": (d, width), "W2": (width, k)} with W1 of rank d, so width ≥ d.
        gamma: the scale of the init, above 0.
    """
    gamma = positive(gamma)
    W1, W2 = layers_of(problem, params)
    left, s, right = full_rank(W1)
    alpha = (left / s) @ (right @ W2)
    misfit = _norm(W2 - W1.T @ alpha) / (_norm(W2) or 1.0)
    off = W1 - 2 * gamma * (left / s) @ right - alpha @ W2.T
    return KKT(
        _feasibility(problem, W1 @ W2),
        max(_outside(problem, alpha), misfit),
        _norm(off) / _norm(W1),
    )


def _feasibility(problem: LeastSquares, beta: np.ndarray) -> float:
    """The gradient, relative to where training starts."""
    start = _norm(force(problem, np.zeros_like(beta)))
    return _norm(force(problem, beta)) / (start or 1.0)


def _outside(problem: LeastSquares, alpha: np.ndarray) -> float:
    """The part of α outside of span Xᵀ."""
    basis = problem.row_space
    return _norm(alpha - basis @ (basis.T @ alpha)) / (_norm(alpha) or 1.0)


def _norm(array: np.ndarray) -> float:
    """Frobenius; of a vector, because that one alone does not under- or overflow by squaring."""
    norm: Any = scipy.linalg.norm(array.ravel())
    return float(norm)


class InterpolatorDimensions(NamedTuple):
    """Of the minimisers among predictors and among parameters."""

    predictors: int
    parameters: int


def interpolator_dimensions(problem: LeastSquares, width: int) -> InterpolatorDimensions:
    r"""The numbers $(d-r)k$ and $h(d+k)-rk$ for data of rank r and hidden width h.

    The second holds at regular points, for example wherever the rows of W1 are independent;
    `gradbias.observe.interpolator_dimension` measures it at a given point.

    Args:
        problem: a Regression or a Population.
        width: the number of hidden units, at least min(r, k), or a generic problem has no
            interpolator.
    """
    r = least_squares(problem).rank
    width = checks.integer("width", width, at_least=max(min(r, problem.k), 1))
    d = problem.d
    k = problem.k
    return InterpolatorDimensions((d - r) * k, width * (d + k) - r * k)
