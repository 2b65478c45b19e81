"""Sections 2 and 3, around the theorems: how many interpolators, what rank, what γ = 0 does."""

import numpy as np

from ...init import balanced
from ...nets import TwoLayer
from ...numerics.linalg import rank_threshold
from ...theory.spectral import interpolator_dimensions
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases
from ._facts import I_GAMMA, OF_DATA, PLAIN, STEPS, problem_of, start
from ._measurements import path, svdvals
from ._paper import PAPER


def predict_dimensions(setup: Setup) -> Claims:
    dimensions = interpolator_dimensions(problem_of(setup), len(setup.params["W2"]))
    return {
        "predictors": float(dimensions.predictors),
        "parameters": float(dimensions.parameters),
    }


def measure_dimensions(run: Run) -> Measurements:
    """Ranks of the Jacobians of the outputs on the data, in β and in (W1, W2), at the end."""
    problem = problem_of(setup_of(run))
    rows = problem.row_space.T
    outputs = np.eye(problem.k)
    W1 = np.asarray(run.final["W1"])
    W2 = np.asarray(run.final["W2"])
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
    hypotheses=[I_GAMMA, PLAIN, OF_DATA],
    predict=predict_dimensions,
    measure=measure_dimensions,
    tolerance=1e-12,
    instances=cases.flow,
    controls=[Control("rows of W1 are independent", cases.nothing)],
    title="how many interpolators there are",
    dynamics=STEPS,
    paper=PAPER,
)


def balanced_flow(key: int) -> Setup:
    """A balanced start not far from the solution."""
    problem = cases.regression(key)
    d, _, k, width = cases.sizes(key)
    away = 0.3 * cases.draws(key + 5).standard_normal((d, k))
    net = TwoLayer(d, k, width)
    return cases.flow(key, params=balanced(net, problem.min_norm + away, key=key))


def _imbalance(setup: Setup) -> float:
    W1, W2, _ = start(setup)
    size = float(np.linalg.norm(W1) ** 2)
    return float(np.linalg.norm(W1.T @ W1 - W2 @ W2.T)) / size if size else 0.0


def measure_beyond(run: Run) -> Measurements:
    values = svdvals(path(run).W1)
    beyond = values[:, setup_of(run).problem.k :].max(initial=0.0)
    return {"values beyond k": beyond / values.max() if beyond > 0 else 0.0}


BALANCED_RANK = Theorem(
    "spectral.balanced_rank",
    r"If $W_1^TW_1 = W_2W_2^T$ at the start, then $W_1$ has rank at most $k$ at every time, of "
    r"the flow, and of descent with any step and any noise in the data.",
    hypotheses=[
        kind("there are fewer outputs than inputs", lambda s: s.problem.k < s.problem.d),
        OF_DATA,
        Hypothesis("the init is balanced", _imbalance, 1e-12),
    ],
    predict=lambda setup: {"values beyond k": equals(0.0, scale=1.0)},
    measure=measure_beyond,
    tolerance=1e-10,
    instances=balanced_flow,
    controls=[Control("the init is balanced", cases.flow)],
    title="balanced layers have rank at most k",
    dynamics=STEPS,
    paper=PAPER,
)


def measure_furthest(run: Run) -> Measurements:
    """From the record: a run that stands still is stuck, and that is what the theorem says."""
    return {"theta": np.nanmax(np.abs(run.data["theta"].values))}


def still(key: int) -> Setup:
    """Both layers zero, for a given time: there is no gap to reach."""
    return cases.nothing(key).replace(until=Until(time=cases.TIMES[-1]))


ZERO = Theorem(
    "spectral.zero",
    r"At $\gamma = 0$, where both layers are zero, gradient flow and descent stay where they are: "
    r"$\gamma \to 0$ after $t \to \infty$ gives $\beta^\star$, before it gives 0.",
    hypotheses=[OF_DATA, Hypothesis("both layers are zero", lambda s: _size(s), 0.0)],
    predict=lambda setup: {"theta": equals(0.0, scale=max(norm_of_solution(setup), 1e-300))},
    measure=measure_furthest,
    tolerance=1e-12,
    instances=still,
    controls=[Control("both layers are zero", lambda key: cases.flow(key, gamma=1e-3))],
    title="γ = 0 is stationary",
    dynamics=STEPS,
    paper=PAPER,
)


def _size(setup: Setup) -> float:
    W1, W2, _ = start(setup)
    return float(max(np.abs(W1).max(), np.abs(W2).max()))


def norm_of_solution(setup: Setup) -> float:
    """The norm of the minimiser of least norm."""
    return float(np.linalg.norm(problem_of(setup).min_norm))
