"""Laws of lr → 0: measured with a step and with half of it, and extrapolated."""

import dataclasses
from collections.abc import Callable

import numpy as np

from ...dynamics import Descent
from ..prelude import Ensemble, Hypothesis, Measured, Setup, Until, common, measured

SECOND = 0.25  # of the square of what one step is off: what is left after extrapolation
ROUGHEST = 0.4  # above this one step is off by so much that nothing is known of its square


def halved(setup: Setup) -> Setup:
    """Half the step for the same time k·lr²: four times as many."""
    saves = 4 * np.asarray(setup.save_at)
    return setup.replace(
        dynamics=half_step(setup), until=Until(steps=int(saves[-1])), save_at=saves
    )


def half_step(setup: Setup) -> Descent:
    """The same dynamics with half the step."""
    steps = setup.dynamics
    assert isinstance(steps, Descent)
    return dataclasses.replace(steps, lr=np.asarray(common.learning_rate(setup) / 2))


def members(setup: Setup, count: int) -> Ensemble:
    """The same start under other noise."""
    first = count * setup.key
    return Ensemble(lambda seed: setup.replace(key=first + int(seed)), {"seed": range(count)})


def extrapolated(coarse: Measured, fine: Measured) -> Measured:
    """To lr = 0, from lr and lr/2: what is of first order drops out."""
    assert coarse.standard_error is not None and fine.standard_error is not None
    return measured(
        2 * fine.value - coarse.value,
        standard_error=np.hypot(2 * fine.standard_error, coarse.standard_error),
    )


def small_step(first: Callable[[Setup], float], second: float = SECOND) -> Hypothesis:
    """What extrapolation leaves, of second order in lr.

    Args:
        first: what one step is off, of first order.
        second: the share of its square that is left.
    """

    def left(setup: Setup) -> float:
        return second * first(setup) ** 2

    return Hypothesis("the step is small", left, second * ROUGHEST**2, True, "O(lr²)")
