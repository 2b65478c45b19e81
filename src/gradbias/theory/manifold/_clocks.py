"""The three clocks of a gradient method with learning rate lr.

Steps k; the time of gradient flow, k·lr, in which the loss falls; and the time of the limiting
diffusion, k·lr², in which the parameters move along the manifold once it has fallen.
"""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.types import Number


def steps_to_flow(steps: ArrayLike, lr: float) -> Number:
    """Steps k → k·lr."""
    return _times(steps, "steps") * _rate(lr)


def steps_to_limit(steps: ArrayLike, lr: float) -> Number:
    """Steps k → k·lr²."""
    return _times(steps, "steps") * _rate(lr) ** 2


def flow_to_steps(time: ArrayLike, lr: float) -> Number:
    """The last step k with k·lr at or before `time`."""
    return _whole(_times(time, "time") / _rate(lr))


def limit_to_steps(time: ArrayLike, lr: float) -> Number:
    """The last step k with k·lr² at or before `time`."""
    return _whole(_times(time, "time") / _rate(lr) ** 2)


def flow_to_limit(time: ArrayLike, lr: float) -> Number:
    """Flow time k·lr → k·lr²."""
    return _times(time, "time") * _rate(lr)


def limit_to_flow(time: ArrayLike, lr: float) -> Number:
    """Limit time k·lr² → k·lr."""
    return _times(time, "time") / _rate(lr)


def _rate(lr: float) -> float:
    return checks.number("lr", lr, above=0)


def _times(value: ArrayLike, name: str) -> Number:
    array = checks.array(name, value)
    if np.min(array, initial=0.0) < 0:
        raise ValueError(f"{name} must be at least 0, got {np.min(array)}")
    return array[()]


def _whole(steps: Number) -> Number:
    # 0.3/0.1² is 29.999999999999993: a hair below a whole number is that number.
    return np.floor(steps * (1 + 4e-16) + 1e-9).astype(np.int64)[()]
