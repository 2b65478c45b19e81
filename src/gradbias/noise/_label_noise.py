"""Fresh noise on the labels at every step."""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from ..numerics import checks
from ..numerics.counter_rng import normal, sign
from ..numerics.types import Integer
from ..problems import Batch, Problem
from ._data import DataNoise
from ._sampling import centred, check_batch, hits, is_flag, refuse_classes, rows, weight_variance


class LabelNoise(DataNoise):
    """Independent noise on the labels that a step sees, new at every step.

    Where the data are interpolated and L = (1/2n)‖f − y‖², Σ = (std²/b)·H with the Hessian H,
    with and without replacement; b = n if the step sees all rows. A row drawn twice gets two
    independent noises.

    Args:
        std: the standard deviation δ.
        batch_size: how many rows a step sees; all if None.
        replace: may a row be drawn twice?
        law: "sign" for ±std, "gaussian" for N(0, std²).
    """

    lasts: ClassVar[bool] = True
    std: Any
    batch_size: int | None = eqx.field(static=True)
    replace: bool = eqx.field(static=True)
    law: str = eqx.field(static=True)

    def __init__(
        self, std: float, batch_size: int | None = None, replace: bool = False, law: str = "sign"
    ):
        self.std = np.asarray(checks.number("std", std, at_least=0))
        if batch_size is not None:
            batch_size = checks.integer("batch_size", batch_size, at_least=1)
        self.batch_size = batch_size
        self.replace = is_flag("replace", replace)
        if replace and batch_size is None:
            raise ValueError("replace=True needs a batch_size, got None: every row is seen once")
        self.law = checks.one_of("law", law, ("sign", "gaussian"))

    def check(self, problem: Problem, steps: int | None) -> None:
        super().check(problem, steps)
        refuse_classes(problem, "LabelNoise")
        if self.batch_size is not None:
            check_batch(problem, self.batch_size, self.replace)

    def draw(self, key: Integer, n: int, k: int = 1) -> tuple[Any, Any]:
        batch = self.rows_batch(key, n, k)
        if batch.indices is None:
            return None, batch.label_noise
        drawn = hits(batch.indices, n)
        times = drawn.sum(axis=1)
        # Under squared loss, the noises of a row that was drawn twice act through their mean.
        at_least_one = times + (times == 0.0).astype(np.float64)
        mean = (drawn @ batch.label_noise) / at_least_one[:, None]
        return n / batch.indices.shape[0] * times, mean

    def moments(self, n: int) -> tuple[np.ndarray | None, Any]:
        weights, variance = self.compact_moments(n)
        return None if weights is None else centred(n, weights), variance

    def compact_moments(self, n: int) -> tuple[float | None, Any]:
        variance = self.std * self.std
        b = self.batch_size
        if b is None:
            return None, variance
        if self.replace:
            variance = variance * (n / (n + b - 1))  # E[w²ε²]/E[w²]: repeated rows average
        return weight_variance(n, b, self.replace), variance

    def rows_batch(self, key: Integer, n: int, k: int) -> Batch:
        indices = None
        if self.batch_size is not None:
            indices = rows(key, n, self.batch_size, self.replace)
        shape = (n if self.batch_size is None else self.batch_size, k)
        noise = sign(key, shape) if self.law == "sign" else normal(key, shape)
        return Batch(indices=indices, label_noise=self.std * noise)
