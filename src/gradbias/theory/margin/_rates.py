"""Constants of the slow approach to the largest margin."""

from typing import NamedTuple

import numpy as np

from ...problems import Classification
from ._offset import offset


class RateConstants(NamedTuple):
    """What is left of the famous 1/log t.

    Attributes:
        loss: the limit of t·L(t), 1/γ².
        margin: the limit of (γ − γ_t)·‖w(t)‖: the entropy gap of the dual weights.
        weights: p*, the limit of the samples' shares of the gradient: γ²α.
    """

    loss: float
    margin: float
    weights: np.ndarray


def rate_constants(problem: Classification) -> RateConstants:
    """The constants of the flow of a linear predictor, and of descent with t = k·lr.

    Args:
        problem: separable, no sample on the margin without weight.
    """
    found = offset(problem)
    weights = found.gamma**2 * found.alpha
    return RateConstants(found.gamma**-2, found.entropy_gap, weights)
