"""Curvature of a two-layer net where its predictor has no gradient, without the big matrix."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.linalg

from .._problem import LeastSquares, layers_of, singular_basis
from .._units import RATE, homogeneous


@homogeneous(RATE)
def sharpness_at_interpolation(problem: LeastSquares, params: Mapping[str, Any]) -> float:
    r"""The largest eigenvalue of $K = XMX^T\otimes I_k + XX^T\otimes N$.

    It is the largest eigenvalue of the Hessian in (W1, W2) wherever ∂L/∂β = 0, so at every
    interpolator. An eigenvector of N splits K into n × n blocks; the block of the
    largest one is the largest block, so the answer is a singular value of X(M + ν_max I)^{1/2}.

    Args:
        problem: a Regression or a Population; its weight counts (2·weight·K).
        params: {"W1": (d, width), "W2": (width, k)}.
    """
    W1, W2 = layers_of(problem, params)
    view = singular_basis(problem)
    values = view.curvature
    basis = view.basis
    if not len(values):
        return 0.0
    top = scipy.linalg.svdvals(W2)[0]
    seen = np.sqrt(values)[:, None] * np.hstack([basis.T @ W1, top * basis.T])
    return float(scipy.linalg.svdvals(np.linalg.qr(seen.T, mode="r"))[0]) ** 2


@homogeneous(RATE)
def hessian_trace_at_interpolation(problem: LeastSquares, params: Mapping[str, Any]) -> float:
    r"""The trace of the Hessian, $k\,\mathrm{tr}(AM) + \mathrm{tr}(A)\|W_2\|^2$.

    The loss is quadratic in each layer, so this holds at every point. Label noise moves along
    the interpolators towards its minimum.

    Args:
        problem: a Regression or a Population; its weight counts, A = 2·weight·XᵀX.
        params: {"W1": (d, width), "W2": (width, k)}.
    """
    W1, W2 = layers_of(problem, params)
    view = singular_basis(problem)
    values = view.curvature
    basis = view.basis
    seen = np.sqrt(values)[:, None] * (basis.T @ W1)
    return float(problem.k * np.sum(seen**2) + np.sum(values) * np.sum(W2**2))
