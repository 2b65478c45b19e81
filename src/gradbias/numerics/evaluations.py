"""An end for solvers that have none: SciPy's may try ever new steps once a number is NaN."""

from collections.abc import Callable

import numpy as np

Velocity = Callable[[float, np.ndarray], np.ndarray]


class Exhausted(Exception):
    """A solver left the finite numbers, or asked too often."""


def limited(velocity: Velocity, most: int) -> Velocity:
    """The right-hand side of an equation, to be evaluated `most` times and at finite states only.

    It raises `Exhausted` after that. What it returns may be infinite: a solver then makes its step
    shorter.
    """
    count = 0

    def counted(time: float, state: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        if count > most or not np.isfinite(time) or not np.isfinite(state).all():
            raise Exhausted
        return velocity(time, state)

    return counted
