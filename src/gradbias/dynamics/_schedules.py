"""Learning rates: constant, piecewise constant, or any function of the step."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..numerics import checks
from ..numerics.types import Integer

Schedule = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Piecewise:
    """A learning rate that changes at given steps; made by `piecewise`."""

    starts: tuple[int, ...]
    rates: tuple[float, ...]

    def __call__(self, step: Integer) -> np.ndarray:
        index = np.searchsorted(np.asarray(self.starts), step, side="right") - 1
        return np.asarray(self.rates)[index]


def piecewise(rates: Mapping[int, float]) -> Piecewise:
    """A learning rate for each stretch of steps: `{0: 0.001, 5000: 0.008}`.

    Args:
        rates: first step of a stretch → learning rate; must start at step 0.
    """
    if not isinstance(rates, Mapping) or 0 not in rates:
        raise ValueError(
            f"rates must map steps to learning rates and start at 0, got {rates!r:.80}"
        )
    starts = sorted(checks.integer("rates: step", start) for start in rates)
    values = tuple(checks.number(f"rates[{s}]", rates[s], above=0) for s in starts)
    return Piecewise(tuple(starts), values)


def rates(lr: np.ndarray | Schedule, start: int, stop: int) -> np.ndarray:
    """The learning rates of steps start … stop − 1, checked."""
    steps = np.arange(start, stop)
    if not callable(lr):
        return np.full(len(steps), float(lr))
    values = _evaluate(lr, steps)
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"lr must be greater than 0 at every step, got {values[first]} at step {steps[first]}"
        )
    return values


def _evaluate(lr: Schedule, steps: np.ndarray) -> np.ndarray:
    """All at once if the function can, else step by step."""
    try:
        values = np.asarray(lr(steps), dtype=np.float64)
        if values.shape == steps.shape:
            return values
    except Exception:
        # A function of one step (`0.1 if k < 100 else 0.01`) fails on an array in its own way.
        pass
    return np.array([float(lr(int(step))) for step in steps])


def elapsed(lr: np.ndarray | Schedule, steps: np.ndarray) -> np.ndarray:
    """The sum of learning rates up to each of these (sorted) step counts."""
    steps = np.asarray(steps, dtype=np.int64)
    if not callable(lr):
        return steps * float(lr)
    if len(steps) == 0:
        return np.zeros(0)
    return np.concatenate([[0.0], np.cumsum(rates(lr, 0, int(steps[-1])))])[steps]


def steps_for(lr: np.ndarray | Schedule, time: float) -> int:
    """The first number of steps whose learning rates sum to at least `time`."""
    if not callable(lr):
        return int(np.ceil(time / float(lr) * (1 - 1e-12)))
    block = 4096
    done = 0
    passed = 0.0
    while done < 10**9:
        sums = passed + np.cumsum(rates(lr, done, done + block))
        if sums[-1] >= time * (1 - 1e-12):
            return done + int(np.argmax(sums >= time * (1 - 1e-12))) + 1
        done = done + block
        passed = float(sums[-1])
    raise ValueError(f"until.time={time}: lr sums to {passed} only after {done} steps")
