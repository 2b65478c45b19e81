"""Hypotheses and facts that theorems of several papers share."""

import itertools
import math

import numpy as np

from .._engine.setup import Setup
from ..dynamics import Descent
from ..nets import ChainNet
from ..noise import DataNoise, Minibatch
from ..problems import Population, QuadraticProblem, Regression
from ._hypothesis import Hypothesis, kind
from ._per_setup import fact

BALANCED = 1e-8  # of the largest layer's square
FITS = 1e-20  # of the loss at zero: a least loss below this is rounding


def one_output() -> Hypothesis:
    """The problem has a single output."""
    return kind("there is one output", lambda setup: setup.problem.k == 1)


def no_decay() -> Hypothesis:
    """No weight decay."""
    return Hypothesis("there is no weight decay", weight_decay, 0.0)


def plain() -> list[Hypothesis]:
    """No weight decay, no momentum."""
    return [
        no_decay(),
        Hypothesis("there is no momentum", lambda s: number(s, "momentum"), 0.0),
    ]


def weight_decay(setup: Setup) -> float:
    """γ of the dynamics; 0 for one that has none."""
    return number(setup, "weight_decay")


def number(setup: Setup, name: str) -> float:
    """A setting of the dynamics; 0 for one that does not have it."""
    return float(getattr(setup.dynamics, name, 0.0))


def learning_rate(setup: Setup) -> float:
    """The step of Descent (NaN for a schedule), 0 for a flow."""
    rate = getattr(setup.dynamics, "lr", 0.0)
    return math.nan if callable(rate) else float(rate)


def minibatch(setup: Setup) -> Minibatch | None:
    """The noise of Descent, if it is that of minibatches."""
    noise = getattr(setup.dynamics, "noise", None)
    return noise if isinstance(noise, Minibatch) else None


def sees_data_only(setup: Setup) -> bool:
    """Is every step a combination of the data's rows?

    So it is unless noise is added to it, or it takes coordinates one by one, as Adam does.
    """
    if setup.dynamics.not_closed_on(setup.net) is not None:
        return False
    noise = getattr(setup.dynamics, "noise", None)
    return noise is None or isinstance(noise, DataNoise)


def noise_vanishes(setup: Setup) -> bool:
    """No noise, or minibatches of labels that can be fitted: it dies out at the minima."""
    if getattr(setup.dynamics, "noise", None) is None:
        return True
    problem = quadratic(setup)
    scale = float(problem.loss(np.zeros((problem.d, problem.k))))
    return minibatch(setup) is not None and problem.min_loss <= FITS * scale


@fact
def factors(setup: Setup) -> list[np.ndarray]:
    """The matrices of a chain net at the start."""
    assert isinstance(setup.net, ChainNet)
    return [np.asarray(f) for f in setup.net.factors(setup.params)]


@fact
def imbalance(setup: Setup) -> float:
    """How far a chain is from balanced: the largest seam over the largest layer's square."""
    layers = factors(setup)
    size = max(float(np.linalg.norm(f, 2)) for f in layers) ** 2
    if size == 0:
        return 0.0
    return max((_seam(a, b) for a, b in itertools.pairwise(layers)), default=0.0) / size


def _seam(left: np.ndarray, right: np.ndarray) -> float:
    """‖leftᵀleft − right rightᵀ‖, of a wide seam in a basis of what the two span."""
    stacked = np.concatenate([left, right.T])
    if stacked.shape[1] > len(stacked):
        stacked = np.transpose(np.linalg.qr(stacked.T, mode="r"))
    a = stacked[: len(left)]
    b = stacked[len(left) :]
    return float(np.linalg.norm(a.T @ a - b.T @ b, 2))


@fact
def excess_at_start(setup: Setup) -> float:
    """The excess loss at the start over that of its terms, labels and layers, by themselves."""
    problem = regression(setup)
    grown = math.prod(float(np.linalg.norm(f, 2)) for f in factors(setup))
    terms = float(np.linalg.norm(problem.labels)) + float(np.linalg.norm(problem.X, 2)) * grown
    now = float(problem.excess()(problem.as_predictor(start(setup))))
    return now / (float(problem.weight) * terms**2) if terms > 0 else 0.0


def not_at_minimum() -> Hypothesis:
    """The start is not a minimiser, up to rounding: nothing would move."""
    return kind("the start is not at the minimum", lambda s: excess_at_start(s) > FITS)


def balanced() -> Hypothesis:
    """Every seam of a chain net is balanced at the start."""
    return Hypothesis("init is balanced", imbalance, BALANCED)


@fact
def start(setup: Setup) -> np.ndarray:
    """The predictor at the start, as the problem's `min_norm` is shaped."""
    product = factors(setup)[0]
    for factor in factors(setup)[1:]:
        product = product @ factor
    return np.asarray(setup.problem.at_edge(product))


def is_descent(setup: Setup) -> bool:
    """Are there steps?"""
    return isinstance(setup.dynamics, Descent)


def quadratic(setup: Setup) -> QuadraticProblem:
    """The problem of a theorem about squared loss."""
    assert isinstance(setup.problem, QuadraticProblem)
    return setup.problem


def regression(setup: Setup) -> Regression:
    """The problem of a theorem about finite data with squared loss."""
    assert isinstance(setup.problem, Regression)
    return setup.problem


def population(setup: Setup) -> Population:
    """The problem of a theorem about fresh samples."""
    assert isinstance(setup.problem, Population)
    return setup.problem
