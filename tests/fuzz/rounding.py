"""How far rounding alone may move a run: the same run, rounded otherwise at every step.

A twin has all its numbers, data and parameters, changed by about their last digits before every
step: that is what other orders of the same sums do. How far twins end from the run they are made
of is measured, whatever the run does with errors; a chaotic one has a large value, and is told as
such.
"""

import math
from typing import Any

import numpy as np

DIGIT = 4e-16  # the rounding of a sum of a handful of products, relative
PATTERNS = 16  # ways to round; a step takes one of them
CHANCE = 1e-6  # that rounding moves a run by more than is allowed, one comparison


def allowance(twins: int) -> float:
    """Times the farthest of some twins, rounding moves a run beyond it by `CHANCE` at most.

    For displacements along one line, where twins say least: all of n normal numbers are below t in
    size with a probability of (0.8 t)ⁿ at most, so one more exceeds c times the largest with
    E|z|ⁿ (0.8 / c)ⁿ.
    """
    moment = 2 ** (twins / 2) * math.gamma((twins + 1) / 2) / math.sqrt(math.pi)
    return 0.8 * (moment / CHANCE) ** (1 / twins)


class Rounding:
    """Changes numbers by about their last digits, anew at every step.

    Args:
        seed: of the changes.
        copies: how many twins lie along the first axis; the first of all is left as it is. None
            for one twin without such an axis.
        size: of a change, relative.
    """

    def __init__(self, seed: int, copies: int | None = None, size: float = DIGIT):
        self.rng, self.copies, self.size = np.random.default_rng(seed), copies, size
        self.patterns: dict[Any, np.ndarray] = {}

    def __call__(self, name: Any, array: np.ndarray) -> np.ndarray:
        """An array, changed; arrays of one name have one shape."""
        return array * self._pattern(name, array)

    def of_largest(self, name: Any, array: np.ndarray) -> np.ndarray:
        """An array, all its entries changed by the last digits of the largest one."""
        change = self._pattern((name, "of the largest"), array) - 1
        return array + change * np.abs(array).max(initial=0.0)

    def _pattern(self, name: Any, array: np.ndarray) -> np.ndarray:
        if name not in self.patterns:
            changes = self.rng.integers(-1, 2, size=(PATTERNS, *array.shape)) * self.size
            if self.copies is not None:
                changes[:, 0] = 0.0
            self.patterns[name] = 1 + changes
        return self.patterns[name][self.rng.integers(PATTERNS)]
