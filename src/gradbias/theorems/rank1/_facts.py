"""What the theorems read of a setup: its data and depth, where it ends, how small its step is."""

import math

import numpy as np

from ...problems import Regression
from ...theory import balanced_limit, gd_gap, sgd_limit
from ...theory.rank1 import BalancedLimit
from ..prelude import Hypothesis, Measurements, Run, Setup, common, fact, kind, limit

# First order in lr may be off by its own next order: twice the shift is what to expect.
SAFETY = 2.0
USEFUL = 0.5

QUIET = kind("there is no noise", lambda s: getattr(s.dynamics, "noise", None) is None)
DIES_OUT = kind("noise dies out at the minima", common.noise_vanishes)


def outside(problem: Regression, layer: np.ndarray) -> np.ndarray:
    """The part of a first layer that the data do not see."""
    basis = problem.row_space
    return layer - basis @ (basis.T @ layer)


def measure_end(run: Run) -> Measurements:
    """The predictor at the end of the run."""
    return {"theta": limit(run)}


def depth_of(setup: Setup) -> int:
    """N, the number of factors."""
    return len(common.factors(setup))


@fact
def end(setup: Setup) -> BalancedLimit:
    """Where gradient flow from this balanced start ends."""
    return balanced_limit(common.regression(setup), common.start(setup), depth_of(setup))


@fact
def moved_end(setup: Setup) -> BalancedLimit:
    """Where GD or SGD ends, to first order in the step."""
    problem = common.regression(setup)
    theta0 = common.start(setup)
    N = depth_of(setup)
    lr = common.learning_rate(setup)
    batch = common.minibatch(setup)
    if batch is not None:
        return sgd_limit(problem, theta0, N, lr, batch.batch_size, batch.replace)
    return balanced_limit(problem, theta0, N, gd_gap(problem, theta0, N, lr))


def step_error(setup: Setup) -> float:
    """How far a finite step moves the limit, relative; 0 for a flow."""
    if math.isnan(common.learning_rate(setup)):
        return math.nan  # a schedule
    if not common.is_descent(setup) or depth_of(setup) == 1:
        return 0.0
    exact = np.asarray(end(setup).theta)
    shift = float(np.linalg.norm(moved_end(setup).theta - exact))
    # A start whose flow moves to a minimum as far as the shift itself has no small parameter.
    return SAFETY * shift / float(np.linalg.norm(exact))


@fact
def sharpness(setup: Setup) -> float:
    """The size of the sharpness on the way: that of the data times the other layers' squares."""
    problem = common.regression(setup)
    curvature = 2 * float(problem.weight) * float(np.linalg.norm(problem.X, 2)) ** 2
    sizes = [float(np.linalg.norm(theta)) for theta in (common.start(setup), end(setup).theta)]
    return curvature * max(sizes) ** (2 - 2 / depth_of(setup))


def reaches_zero() -> Hypothesis:
    """The start is not on the stable curve of the saddle at zero."""
    return kind("the flow does not end at the saddle θ = 0", lambda s: not end(s).saddle)
