"""The predictor of least norm whose margins are all at least one."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..geometry import L1, L2, Geometry, Linf
from ..numerics.constants import sealed
from ..numerics.hard_margin import least_l1, least_l2, least_linf
from ..numerics.linalg import one_blas_thread

if TYPE_CHECKING:
    from ._classification import Classification

NEAR = 1e-6  # of the longest sample: with a smaller margin, rounding decides what separates
SOLVERS = {L1: least_l1, L2: least_l2, Linf: least_linf}


class MaxMargin(NamedTuple):
    """The hard-margin predictor of a geometry.

    Attributes:
        w: ŵ, the predictor of least norm with margins of at least 1; (d,) or (d, K).
        gamma: γ = 1/‖ŵ‖, the largest smallest margin of a predictor of norm 1.
        alpha: α ≥ 0, the multipliers, (n,) or (n, K): Σα = 1/γ² and ‖Zᵀα‖_* = 1/γ; in ℓ2 ŵ = Zᵀα.
        residual: how far bounds on γ from ŵ and from α are apart, or margins below 1 and off the
            support; relative.
    """

    w: np.ndarray
    gamma: float
    alpha: np.ndarray
    residual: float


def find_max_margin(problem: "Classification", geometry: Geometry) -> MaxMargin:
    """The hard-margin predictor; a ValueError if there is none, or none that can be computed."""
    if type(geometry) not in SOLVERS:
        known = ", ".join(f"gb.geometry.{kind.__name__}" for kind in SOLVERS)
        raise ValueError(
            f"geometry must be one of {known}, which have exact solvers, got {geometry!r}: in any "
            "other, gb.theory.margin.certificate(problem, theta, geometry) bounds γ from both sides"
        )
    separability = problem.separability
    if not separability.separable:
        raise ValueError(f"max_margin: {separability.sentence}")
    Z = problem.constraints
    with one_blas_thread():
        w, alpha = SOLVERS[type(geometry)](Z)
    gamma = 1 / float(geometry.norm(w))
    longest = float(max(geometry.dual_norm(row) for row in Z))
    if gamma < NEAR * longest:
        raise ValueError(
            f"max_margin: the data are separable by a margin of {gamma:.1e} only, of samples up "
            f"to {longest:.1e}: rounding would decide what separates them"
        )
    residual = _residual(Z, w, alpha, geometry, gamma)
    return sealed(_shaped(problem, w, gamma, alpha, residual))


def _residual(
    Z: np.ndarray, w: np.ndarray, alpha: np.ndarray, geometry: Geometry, gamma: float
) -> float:
    margins = Z @ w
    p = alpha / alpha.sum()
    upper = float(geometry.dual_norm(Z.T @ p))
    slack = float(np.max(p * np.abs(margins - 1)))
    return max(abs(upper / gamma - 1), 1 - float(margins.min()), slack, 0.0)


def _shaped(
    problem: "Classification", w: np.ndarray, gamma: float, alpha: np.ndarray, residual: float
) -> MaxMargin:
    if problem.vector:
        return MaxMargin(w, gamma, alpha, residual)
    each = np.zeros((problem.n, problem.k))
    each[problem.Y == 0] = alpha
    return MaxMargin(w.reshape(problem.d, problem.k), gamma, each, residual)
