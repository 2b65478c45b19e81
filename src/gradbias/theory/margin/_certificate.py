"""What one predictor proves about the margin of the best."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...geometry import L2, GeometryLike, as_geometry
from ...problems import Classification
from ._entropy import entropy_gap
from ._hard_margin import need_classes


class MarginBounds(NamedTuple):
    """Two sides of γ, the largest smallest margin of a predictor of norm 1.

    Attributes:
        lower: the margin of the predictor that was looked at; not below zero.
        upper: ‖Σp_i z_i‖_*, p the samples' shares of its gradient.
    """

    lower: float
    upper: float


def certificate(
    problem: Classification, theta: ArrayLike, geometry: GeometryLike = L2
) -> MarginBounds:
    r"""Bounds on γ from any predictor at all: $m_{\min}/\|w\| \le \gamma \le \|Z^\top p\|_*$.

    Weak duality: γ is the least ‖Zᵀp‖_* of any weights p ≥ 0 of sum one. Of data that cannot be
    separated γ is 0, and the upper bound holds all the same.

    Args:
        problem: what is classified.
        theta: the predictor, (d,) or (d, K).
        geometry: in whose norm.
    """
    problem = need_classes(problem)
    norms = as_geometry("geometry", geometry)
    predictor = np.asarray(problem.as_predictor(theta))
    m = problem.constraints @ predictor.ravel()
    size = float(norms.norm(predictor))
    pulled = (problem.constraints.T @ _shares(problem, m)).reshape(predictor.shape)
    lower = float(m.min()) / size if size > 0 else 0.0
    return MarginBounds(max(lower, 0.0), float(norms.dual_norm(pulled)))


class DualityGap(NamedTuple):
    """What is between the two bounds of a certificate, both parts over the predictor's norm.

    Attributes:
        misalignment: ‖w‖‖Zᵀp‖_* − ⟨w, Zᵀp⟩: how far w is from a steepest direction of its own
            gradient.
        entropy: Shannon's entropy of p less its min-entropy.
    """

    misalignment: float
    entropy: float


def duality_gap(
    problem: Classification, theta: ArrayLike, geometry: GeometryLike = L2
) -> DualityGap:
    r"""Why ‖Zᵀp‖_* and m_min/‖w‖ differ, of the exponential loss, whose p is softmax(−m).

    Then $m_{\min} = \langle w, Z^\top p\rangle - H(p) + H_\infty(p)$, and the sum of both
    parts is exactly the width of `certificate` (where the margin is not negative).

    Args:
        problem: with the exponential loss.
        theta: the predictor, (d,), not zero.
        geometry: in whose norm.
    """
    problem = need_classes(problem)
    if problem.loss_name != "exponential":
        raise ValueError(
            f'duality_gap: problem must have loss="exponential", got {problem.loss_name!r}'
        )
    norms = as_geometry("geometry", geometry)
    predictor = np.ravel(np.asarray(problem.as_predictor(theta)))
    size = float(norms.norm(predictor))
    if size == 0:
        raise ValueError("duality_gap: theta must not be zero")
    p = _shares(problem, problem.constraints @ predictor)
    pulled = problem.constraints.T @ p
    misalignment = size * float(norms.dual_norm(pulled)) - float(predictor @ pulled)
    return DualityGap(misalignment / size, entropy_gap(p) / size)


def _shares(problem: Classification, m: np.ndarray) -> np.ndarray:
    """−∂L/∂m of each constraint over their sum."""
    if problem.loss_name == "exponential":
        logs = -m
    elif problem.loss_name == "logistic":
        logs = -np.logaddexp(0.0, m)
    else:  # e^{−m_ik}/(1 + Σ_k e^{−m_ik})
        each = m.reshape(problem.n, -1)
        total = np.logaddexp.reduce(np.concatenate([np.zeros((len(each), 1)), -each], axis=1), 1)
        logs = (-each - total[:, None]).ravel()
    p = np.exp(logs - logs.max())
    return p / p.sum()
