"""Measurements that several files of this paper share."""

import numpy as np

from ...theory import manifold
from ..prelude import Measured, Setup, common, measured


def end_time(setup: Setup) -> float:
    """Time k·lr² at the last save."""
    return float(manifold.steps_to_limit(setup.save_at[-1], common.learning_rate(setup)))


def mean_of(values: np.ndarray, axis: int = 0) -> Measured:
    """The mean over members or copies, with its standard error."""
    error = values.std(axis=axis, ddof=1) / np.sqrt(values.shape[axis])
    return measured(values.mean(axis=axis), standard_error=error)
