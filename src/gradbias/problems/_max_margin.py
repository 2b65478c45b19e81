"""The predictor of least norm whose margins are all at least one."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..geometry import L1, L2, Geometry, Linf
from ..numerics.constants import sealed
from ..numerics.hard_margin import NoDigits, least_l1, least_l2, least_linf
from ..numerics.linalg import one_blas_thread
from ..numerics.units import in_own_unit, times_power_of_two

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
    Z, power = in_own_unit(problem.constraints)
    longest = float(max(geometry.dual_norm(row) for row in Z))
    try:
        with one_blas_thread():
            w, alpha = SOLVERS[type(geometry)](Z)
    except NoDigits:
        raise ValueError(_hardly(f"below {NEAR:g}")) from None
    gamma = 1 / float(geometry.norm(w))
    if gamma < NEAR * longest:
        raise ValueError(_hardly(f"of {gamma / longest:.1e}"))
    residual = _residual(Z, w, alpha, geometry, gamma)
    own = (times_power_of_two(w, -power), times_power_of_two(alpha, -2 * power))
    if not all(np.isfinite(values).all() and values.any() for values in own):
        raise ValueError(
            f"max_margin: samples of size 2^{power} have multipliers, 1/γ² in all, that float64 "
            "cannot hold: give X in another unit"
        )
    return sealed(_shaped(problem, own[0], times_power_of_two(gamma, power), own[1], residual))


def _hardly(margin: str) -> str:
    return (
        f"max_margin: the data are separable by a margin {margin} of the longest sample only: "
        "rounding would decide what separates them"
    )


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
