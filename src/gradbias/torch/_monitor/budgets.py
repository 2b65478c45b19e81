"""The budget of weight decay in a training loop: where a measured step began, and its numbers."""

import dataclasses
import math

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from .._find.family import Family
from .._measure.budget import measure_budget
from .._measure.budget_table import SCALARS, Budget, TensorBudget
from .._measure.undisturbed import Named, trainable

BUDGET = "budget"  # the name of the extra
WORDS = ("name", "optimizer")  # columns that are not numbers


class BudgetProbe:
    """Measures `gradbias.torch.budget` of the step that was just taken.

    Args:
        model: whose parameters.
        optimizer: the one that takes the steps.
        families: pairs among them have an angular momentum.

    Attributes:
        last: the last one measured.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, families: tuple[Family, ...]):
        self._params = trainable(model)
        self._optimizer = optimizer
        self._families = families
        self._before: Named = {}
        self._starts: dict[str, torch.Tensor] = {}
        self.last: Budget | None = None

    def before(self) -> None:
        """Remember where the step begins."""
        self._before = {name: p.detach().clone() for name, p in self._params.items()}

    def forget(self) -> None:
        """A step begins that is not looked at."""
        self._before = {}

    def take(self, arrays: dict[str, np.ndarray]) -> dict[str, float]:
        """The scalars; what they are of goes to `arrays`, a number for every tensor.

        After a step that was not looked at the numbers of a step are nan.
        """
        found = measure_budget(
            self._params, self._optimizer, self._before, self._families, self._starts
        )
        self.last = found
        for field in dataclasses.fields(TensorBudget):
            column = [getattr(tensor, field.name) for tensor in found.tensors]
            words = field.name in WORDS
            numbers = [math.nan if value is None else value for value in column]
            arrays[f"budget/{field.name}"] = np.array(column if words else numbers)
        return found.scalars()


def nothing() -> dict[str, float]:
    """What a row has where the budget could not be measured."""
    return dict.fromkeys(SCALARS, math.nan)
