"""Measurements that theorems of several papers share."""

from typing import Any

import numpy as np

from .._engine.run import Run
from .._engine.status import Ending
from ._claims import Measured, measured

# While the fit still misses by ε in the row space, the free part of the predictor may still move
# by about as much; twice that is allowed for it.
STILL_MOVING = 3.0


def limit(run: Run) -> Measured:
    """The predictor at the end of a run, with the error that an unfinished fit leaves in it.

    Args:
        run: of a linear net on a regression problem.
    """
    setup: Any = run.setup
    if run.theta is None:
        raise ValueError(f"{setup.net!r} has no predictor: it is not linear")
    problem = setup.problem
    theta = problem.as_predictor(run.theta)
    inside = problem.row_space.T @ (theta - problem.as_predictor(problem.min_norm))
    return measured(run.theta, error=STILL_MOVING * float(np.linalg.norm(inside)))


def gap_asked(run: Run) -> float:
    """The excess loss at which a run was told to stop, if that ended it: the rest was to come."""
    setup: Any = run.setup
    if run.status.ending is not Ending.CONVERGED or setup.until.gap is None:
        return 0.0
    return float(setup.until.gap)


def excess(run: Run) -> np.ndarray:
    """The loss above its minimum at every save; the run must have recorded `theta`."""
    setup: Any = run.setup
    above = setup.problem.excess()
    return np.asarray(
        [float(above(setup.problem.as_predictor(t))) for t in run.data["theta"].values]
    )
