"""A problem of any weight in the form L = ½ tr (β − β*)ᵀ A (β − β*) + L*."""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import SVD, rank_threshold
from ...problems import Population, Regression

Quadratic = Regression | Population


class Curvature(NamedTuple):
    """A = basis · diag(values) · basisᵀ without its zero eigenvalues, largest first."""

    values: np.ndarray
    basis: np.ndarray


def quadratic(problem: Any) -> Quadratic:
    """Refuse problems without a squared loss."""
    if not isinstance(problem, Quadratic):
        raise ValueError(
            f"problem must be a Regression or a Population, got {type(problem).__name__}"
        )
    return problem


def curvature(problem: Quadratic) -> Curvature:
    """A, the Hessian of the loss in β: 2·weight·XᵀX, or 2·weight·Σ of a population."""
    quadratic(problem)
    s = problem.svd.s
    squares = s**2 if isinstance(problem, Regression) else s
    return Curvature(2 * float(problem.weight) * squares, problem.row_space)


def force(problem: Quadratic, beta: ArrayLike) -> np.ndarray:
    """R = −∂L/∂β, (d, k); the predictor is checked against the problem."""
    quadratic(problem)
    return -np.asarray(problem.gradient(problem.as_predictor(beta)))


def layers(problem: Quadratic, params: Any) -> tuple[np.ndarray, np.ndarray]:
    """W1 (d, width) and W2 (width, k) out of {name: array}, checked against the problem."""
    quadratic(problem)
    try:
        first, second = params["W1"], params["W2"]
    except (KeyError, TypeError, IndexError):
        raise ValueError(
            f"params must have the arrays 'W1' and 'W2' of a TwoLayer net, got {params!r:.80}"
        ) from None
    W1 = checks.array("params['W1']", first, shape=(problem.d, None))
    return W1, checks.array("params['W2']", second, shape=(W1.shape[1], problem.k))


def full_rank(W1: np.ndarray) -> SVD:
    """The SVD of a first layer with independent rows; refuse another one."""
    U, s, Vt = scipy.linalg.svd(W1, full_matrices=False)
    if len(s) < len(W1) or not s[-1] > rank_threshold(s, W1.shape):
        raise ValueError(
            f"W1 must have independent rows, rank d = {len(W1)}, or log det W1W1ᵀ has no value; "
            f"got shape {W1.shape} with singular values from {s[0]:.3g} to {s[-1]:.3g}"
        )
    return SVD(U, s, Vt)
