"""Sections 2 and 3, around the theorems: how many interpolators, what rank, what γ = 0 does."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...init import balanced
from ...nets import TwoLayer
from ...numerics.linalg import rank_threshold
from ...theory.spectral import interpolator_dimensions
from .._claims import equals
from .._hypothesis import Hypothesis, kind
from .._theorem import Control, Theorem
from . import _instances as cases
from ._facts import ABOUT, I_GAMMA, OF_DATA, PLAIN, STEPS, problem_of, start
from ._measurements import betas, path, svdvals


def _dimensions(setup: Setup) -> dict[str, Any]:
    net: Any = setup.net
    found = interpolator_dimensions(problem_of(setup), net.width)
    return {"predictors": float(found.predictors), "parameters": float(found.parameters)}


def _jacobian_ranks(runs: Any) -> dict[str, Any]:
    """Ranks of the Jacobians of the outputs on the data, in β and in (W1, W2), at the end."""
    run = runs["run"]
    problem = run.setup.problem
    rows, outputs = problem.row_space.T, np.eye(problem.k)
    W1, W2 = np.asarray(run.final["W1"]), np.asarray(run.final["W2"])
    in_beta = np.kron(rows, outputs)
    in_layers = np.hstack([np.kron(rows, W2.T), np.kron(rows @ W1, outputs)])
    return {
        "predictors": float(in_beta.shape[1] - _rank(in_beta)),
        "parameters": float(in_layers.shape[1] - _rank(in_layers)),
    }


def _rank(matrix: np.ndarray) -> int:
    s = svdvals(matrix)
    return int(np.sum(s > rank_threshold(s, matrix.shape)))


DIMENSION = Theorem(
    "spectral.dimension",
    r"For data of rank $r$ the interpolators among predictors have dimension $(d-r)k$, and among "
    r"the parameters of a net of width $h$, around a point where the rows of $W_1$ are "
    r"independent, $h(d+k)-rk$.",
    [I_GAMMA, PLAIN, OF_DATA],
    _dimensions,
    _jacobian_ranks,
    1e-12,
    cases.flow,
    [Control("rows of W1 are independent", cases.nothing)],
    title="how many interpolators there are",
    dynamics=STEPS,
    **ABOUT,
)


def balanced_flow(key: int) -> Setup:
    """A balanced start not far from the solution."""
    problem = cases.regression(key)
    away = 0.3 * cases.draws(key + 5).standard_normal((cases.D, cases.K))
    net = TwoLayer(cases.D, cases.K, cases.WIDTH)
    return cases.flow(key, params=balanced(net, problem.min_norm + away, key=key))


def _imbalance(setup: Setup) -> float:
    W1, W2, _ = start(setup)
    size = float(np.linalg.norm(W1) ** 2)
    return float(np.linalg.norm(W1.T @ W1 - W2 @ W2.T)) / size if size else 0.0


def _beyond(runs: Any) -> dict[str, Any]:
    run = runs["run"]
    values = svdvals(path(run).W1)
    beyond = values[:, run.setup.problem.k :].max(initial=0.0)
    return {"values beyond k": beyond / values.max() if beyond > 0 else 0.0}


BALANCED_RANK = Theorem(
    "spectral.balanced_rank",
    r"If $W_1^TW_1 = W_2W_2^T$ at the start, then $W_1$ has rank at most $k$ at every time, of "
    r"the flow, and of descent with any step and any noise in the data.",
    [
        kind("there are fewer outputs than inputs", lambda s: s.problem.k < s.problem.d),
        OF_DATA,
        Hypothesis("the init is balanced", _imbalance, 1e-12),
    ],
    lambda setup: {"values beyond k": equals(0.0, scale=1.0)},
    _beyond,
    1e-10,
    balanced_flow,
    [Control("the init is balanced", cases.flow)],
    title="balanced layers have rank at most k",
    dynamics=STEPS,
    **ABOUT,
)


def _furthest(runs: Any) -> dict[str, Any]:
    return {"theta": np.abs(betas(runs["run"])).max()}


ZERO = Theorem(
    "spectral.zero",
    r"At $\gamma = 0$, where both layers are zero, gradient flow and descent stay where they are: "
    r"$\gamma \to 0$ after $t \to \infty$ gives $\beta^\star$, before it gives 0.",
    [OF_DATA, Hypothesis("both layers are zero", lambda s: _size(s), 0.0)],
    lambda setup: {"theta": equals(0.0, scale=max(float(star_of(setup)), 1e-300))},
    _furthest,
    1e-12,
    cases.nothing,
    [Control("both layers are zero", lambda key: cases.flow(key, gamma=1e-3))],
    title="γ = 0 is stationary",
    dynamics=STEPS,
    **ABOUT,
)


def _size(setup: Setup) -> float:
    W1, W2, _ = start(setup)
    return float(max(np.abs(W1).max(), np.abs(W2).max()))


def star_of(setup: Setup) -> Any:
    """The norm of the solution."""
    return np.linalg.norm(problem_of(setup).min_norm)
