r"""How far a finite step moves the imbalance, and the layers with it: the grade of O(lr).

A step adds $\eta^2(W_2R^TRW_2^T - W_1^TRR^TW_1)$ to the imbalance, so a run adds
$\eta\int(\dots)dt$ to first order. The integral is taken along the flow in the row space (r × r
and r × k numbers). What is left when it is broken off adds at most $\eta(L - L^*)$, because
$\eta^2\sum\|\nabla L\|^2$ is $\eta$ times the loss that descent loses.
"""

from typing import NamedTuple

import numpy as np
import scipy.integrate
from numpy.typing import ArrayLike

from ...dynamics import Descent
from ...theory import singular_basis
from ..prelude import Hypothesis, Setup, fact
from ._facts import gamma_of, instability, limit_of, problem_of, rate_of, times_of

MOST = 1000  # integration steps; then the bound takes over
DONE = 1e-12  # of the loss
SECOND = 1.5  # for the terms of second order in the step, while lr · sharpness is small


class RelativeDrift(NamedTuple):
    """Relative changes by finite steps, to first order.

    Attributes:
        imbalance: of W1ᵀW1 − W2W2ᵀ, the largest over time.
        end: of the singular values of W1 or of W2 at the end, for a given predictor.
        path: the same over all saves together.
        kkt: of the condition P2 at the end.
    """

    imbalance: float
    end: float
    path: float
    kkt: float


class Change(NamedTuple):
    """At one time: the size of the added imbalance, and what it does to the layers."""

    imbalance: float
    first: float
    first_size: float
    second: float
    second_size: float
    kkt: float


@fact
def drift(setup: Setup) -> RelativeDrift:
    """Zero for a flow."""
    directions = singular_basis(problem_of(setup)).curvature
    if not isinstance(setup.dynamics, Descent) or not len(directions):
        return RelativeDrift(0.0, 0.0, 0.0, 0.0)
    unstable = instability(setup)
    more = SECOND / (1 - unstable) if unstable < 1 else np.inf
    return RelativeDrift(*(rate_of(setup) * more * value for value in _first_order(setup)))


def _first_order(setup: Setup) -> RelativeDrift:
    """d/d lr of the relative changes at lr = 0."""
    gamma = gamma_of(setup)
    d = setup.problem.d
    times, changes = _along_the_flow(setup)
    at = [np.interp(times_of(setup), times, column) for column in changes.T]
    saves = Change(*at)
    end = Change(*changes[-1])
    return RelativeDrift(
        float(changes[:, 0].max() / (2 * gamma * np.sqrt(d))),
        max(_ratio(end.first, end.first_size), _ratio(end.second, end.second_size)),
        max(_ratio(saves.first, saves.first_size), _ratio(saves.second, saves.second_size)),
        end.kkt,
    )


def _ratio(change: ArrayLike, size: ArrayLike) -> float:
    whole = np.linalg.norm(size)
    return float(np.linalg.norm(change) / whole) if whole else 0.0


def _along_the_flow(setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Times, and a `Change` for each, until the loss is at its minimum."""
    gamma = gamma_of(setup)
    problem = problem_of(setup)
    view = singular_basis(problem)
    values = view.curvature
    basis = view.basis
    target = basis.T @ problem.as_predictor(limit_of(setup).theta)
    r, k = target.shape

    def unpack(y):
        return y[: r * r].reshape(r, r), y[r * r : r * (r + k)].reshape(r, k)

    def field(_t, y):
        z1, z2 = unpack(y)
        R = values[:, None] * (target - z1 @ z2)
        forth = z1.T @ R
        back = R @ z2.T
        added = back.T @ back - forth @ forth.T
        return np.concatenate([back.ravel(), forth.ravel(), added.ravel()])

    start = np.zeros(2 * r * r + r * k)
    start[: r * r] = np.sqrt(2 * gamma) * np.eye(r).ravel()
    tolerance = {"rtol": 1e-5, "atol": 1e-7 * np.sqrt(2 * gamma)}
    solver = scipy.integrate.DOP853(field, 0.0, start, np.inf, **tolerance)
    unseen = 2 * gamma * (problem.d - r)  # of ‖W1‖², which never moves
    whole = left = _excess(values, target)
    times = [0.0]
    changes = [_change(*unpack(start), np.zeros((r, r)), gamma, unseen)]
    while len(times) < MOST and left > DONE * whole and solver.status == "running":
        solver.step()
        z1, z2 = unpack(solver.y)
        left = _excess(values, target - z1 @ z2)
        times.append(solver.t)
        changes.append(_change(z1, z2, solver.y[-r * r :].reshape(r, r), gamma, unseen))
    rest = _change(*unpack(solver.y), left * np.eye(r), gamma, unseen)
    sizes = rest._replace(first_size=0.0, second_size=0.0)
    times.append(2 * times[-1] + 1.0)
    changes.append(Change(*map(sum, zip(changes[-1], sizes, strict=True))))
    return np.array(times), np.array(changes)


def _excess(values: np.ndarray, missing: np.ndarray) -> float:
    return float(np.sum(values[:, None] * missing**2) / 2)


def _change(
    z1: np.ndarray, z2: np.ndarray, added: np.ndarray, gamma: float, unseen: float
) -> Change:
    """What an added imbalance does to the layers, for a predictor that stays.

    From M² − ββᵀ = W1ΛW1ᵀ: an added Δ changes σ_i(W1)² = m_i by m_iΔ_ii/(2(m_i − γ)) in the
    basis of the right singular vectors of W1, and σ_i(W2) = σ_i/σ_i(W1) by as much, relatively.
    """
    _, first, right = np.linalg.svd(z1)
    second = np.linalg.svd(z2, compute_uv=False)
    relative = np.abs(np.einsum("ij,jk,ik->i", right, added, right)) / (4 * (first**2 - gamma))
    size = float(np.sqrt(np.sum(first**2) + unseen))
    return Change(
        float(np.linalg.norm(added)),
        float(np.linalg.norm(relative * first)),
        size,
        float(np.linalg.norm(relative[: len(second)] * second)),
        float(np.linalg.norm(second)),
        float(np.linalg.norm((right @ added) / first[:, None])) / size,
    )


def small_step(which: str, times: float = 1.0) -> Hypothesis:
    """The graded hypothesis of a small step.

    Args:
        which: one of the fields of `Drift`.
        times: how many times as much the quantities of the theorem change.
    """
    return Hypothesis(
        "the step is small", lambda setup: times * getattr(drift(setup), which), 0.2, True, "O(lr)"
    )
