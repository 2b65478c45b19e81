"""Minibatches: some rows of the data, or fresh samples."""

from typing import Any

import equinox as eqx
import numpy as np

from ..numerics import checks
from ..numerics.types import Integer
from ..problems import Batch, Problem
from ._data import DataNoise
from ._sampling import centred, check_batch, hits, is_flag, rows, weight_variance


class Minibatch(DataNoise):
    """A few rows, drawn anew at every step; on Population, as many fresh samples.

    Σ is the covariance of the samples' gradients over n, times 1/b with replacement and
    (n − b)/(b(n − 1)) without.

    Args:
        batch_size: b, how many rows a step sees.
        replace: may a row be drawn twice? Fresh samples are always different.
    """

    batch_size: int = eqx.field(static=True)
    replace: bool = eqx.field(static=True)

    def __init__(self, batch_size: int, replace: bool = False):
        self.batch_size = checks.integer("batch_size", batch_size, at_least=1)
        self.replace = is_flag("replace", replace)

    @property
    def fresh(self) -> int:
        return self.batch_size

    def check(self, problem: Problem, steps: int | None) -> None:
        check_batch(problem, self.batch_size, self.replace)

    def draw(self, key: Integer, n: int, k: int = 1) -> tuple[Any, None]:
        indices = rows(key, n, self.batch_size, self.replace)
        return n / self.batch_size * hits(indices, n).sum(axis=1), None

    def moments(self, n: int) -> tuple[np.ndarray, float]:
        return centred(n, self.compact_moments(n)[0]), 0.0

    def compact_moments(self, n: int) -> tuple[float, float]:
        return weight_variance(n, self.batch_size, self.replace), 0.0

    def rows_batch(self, key: Integer, n: int, k: int) -> Batch:
        return Batch(indices=rows(key, n, self.batch_size, self.replace))
