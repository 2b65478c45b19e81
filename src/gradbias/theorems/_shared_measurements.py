"""Measurements that theorems of several papers share."""

import numpy as np

from .._engine.run import Run
from .._engine.setup import Setup
from .._engine.status import Ending
from ._claims import Measured, measured
from ._shared_hypotheses import quadratic

# While the fit still misses by ε in the row space, the free part of the predictor may still move
# by about as much; twice that is allowed for it.
STILL_MOVING = 3.0


def setup_of(run: Run) -> Setup:
    """What was run: of a simulation it is known, of a run from a file it may not be."""
    assert run.setup is not None
    return run.setup


def limit(run: Run) -> Measured:
    """The predictor at the end of a run, with the error that an unfinished fit leaves in it.

    Args:
        run: of a linear net on a regression problem.
    """
    setup = setup_of(run)
    if run.theta is None:
        raise ValueError(f"{setup.net!r} has no predictor: it is not linear")
    problem = quadratic(setup)
    theta = problem.as_predictor(run.theta)
    inside = problem.row_space.T @ (theta - problem.as_predictor(problem.min_norm))
    return measured(run.theta, error=STILL_MOVING * float(np.linalg.norm(inside)))


def gap_asked(run: Run) -> float:
    """The excess loss at which a run was told to stop, if that ended it: the rest was to come."""
    gap = setup_of(run).until.gap
    return 0.0 if run.status.ending is not Ending.CONVERGED or gap is None else gap


def excess(run: Run) -> np.ndarray:
    """The loss above its minimum at every save; the run must have recorded `theta`."""
    problem = quadratic(setup_of(run))
    above = problem.excess()
    return np.asarray([float(above(problem.as_predictor(t))) for t in run.data["theta"].values])
