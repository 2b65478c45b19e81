"""One measurement: noise, sharpness and extras on the probe, each failing on its own."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import nn

from .._find.examples import captured
from .._find.family import Family
from .._find.parameters import Call, doubled
from .._find.symmetries import find_symmetries
from .._measure.batches import B, LossFn, part, size
from .._measure.curvature import TopEigenpair, sharpness
from .._measure.noise import GradientNoise, gradient_noise
from .._measure.repeatable import check_repeatable, scalar_loss
from .._measure.undisturbed import Named, gradient, smooth, trainable
from .drift import PredictedDrift
from .extras import EXTRAS, NAMES, ExtraInputs
from .headline import Sides, headline
from .steps import ChargeSplit

Guard = Callable[[str], AbstractContextManager[Any]]

# What a measurement costs in gradients of the probe, before one was timed: per-sample gradients
# and some 10 products with the Hessian (30 on the CNN example).
_GRADIENTS = 30


class Readings:
    """Measures on one batch again and again.

    Args:
        model: in evaluation mode.
        loss_fn: the mean loss.
        batch: the probe.
        families: what to follow; found if None.
        extras: names of extra measurements.

    Attributes:
        families: what is followed.
        expected: seconds that the first measurement will take, roughly.
        arrays: per-unit arrays of the last measurement.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: LossFn[B],
        batch: B,
        families: Sequence[Family] | None,
        extras: Sequence[str],
    ):
        self.model = model
        self.loss_fn: LossFn[Any] = loss_fn
        self.batch: object = batch
        self.extras = tuple(extras)
        check_repeatable(model, loss_fn, batch)
        begin = time.perf_counter()
        with smooth():  # once more, when nothing is loaded or set up any more
            gradient(scalar_loss(model, loss_fn, batch), trainable(model))
        self.expected = _GRADIENTS * (time.perf_counter() - begin)
        if families is None:
            families = find_families(model, loss_fn, batch)
        self.families: tuple[Family, ...] = tuple(families)
        self.noises: dict[str, GradientNoise] = {}
        self._known: dict[str, GradientNoise] = {}  # the last ones
        self.curvature: TopEigenpair | None = None
        self.arrays: dict[str, np.ndarray] = {}
        self._vector: torch.Tensor | None = None

    def take(
        self,
        params: Named,
        drift: PredictedDrift,
        splits: Mapping[str, ChargeSplit],
        lr: float,
        guard: Guard,
        *,
        rate: float,
        weight_decay: float,
        dear: bool = True,
    ) -> dict[str, float]:
        """All numbers at the parameters of now; nan for what failed, or is not measured now."""
        sides = Sides(params, self.families)
        self.noises = {}
        self.curvature = None
        loss = math.nan
        with guard("the loss"), torch.no_grad():
            loss = float(self.loss_fn(self.model, self.batch))
        with guard("the gradient noise"):
            if dear and self.families:
                self.noises = gradient_noise(self.model, self.loss_fn, self.batch, self.families)
        with guard("the sharpness"):
            if dear:
                self.curvature = sharpness(
                    self.model, self.loss_fn, self.batch, tolerance=0.02, start=self._vector
                )
                self._vector = self.curvature.vector
        self._known = self.noises or self._known
        charges = {name: into - out for name, (into, out) in sides.squares.items()}
        with guard("the predicted drift"):
            drift.measured(charges, self.noises)
        values = headline(
            *(sides, self.noises, self.curvature, splits),
            **{"lr": lr, "explained": drift.explained() if dear else math.nan},
            **{"overhead": math.nan, "loss": loss, "known": self._known},
        )
        inputs = ExtraInputs(
            *(self.model, self.loss_fn, self.batch, self.families, params, sides, self.noises),
            *(rate, weight_decay, drift.batch_size),
        )
        values |= {scalar: math.nan for name in self.extras for scalar in NAMES[name]}
        if not dear:
            return values
        self.arrays = self._per_unit(charges, drift)
        for name in self.extras:
            with guard(f"the extra {name!r}"):
                scalars, arrays = EXTRAS[name](inputs)
                values.update(scalars)
                self.arrays.update(arrays)
        return values

    def _per_unit(
        self, charges: Mapping[str, np.ndarray], drift: PredictedDrift
    ) -> dict[str, np.ndarray]:
        arrays = {f"charge/{name}": c for name, c in charges.items()}
        for name, noise in self.noises.items():
            arrays[f"noise_in/{name}"] = noise.into
            arrays[f"noise_out/{name}"] = noise.out
            arrays[f"noise_ratio_error/{name}"] = noise.standard_error
        for name, moved in drift.moved.items():
            arrays[f"drift_predicted/{name}"] = moved.predicted
            arrays[f"drift_observed/{name}"] = moved.observed
        return arrays


def find_families(model: nn.Module, loss_fn: LossFn[B], batch: B) -> tuple[Family, ...]:
    """The model's symmetries, found with the inputs that loss_fn calls it with.

    None is an answer too: a model whose graph cannot be read is still watched for its sharpness.
    """
    few = part(batch, 0, min(4, size(batch)))  # the structure is the same for any number
    call = captured(model, loss_fn, few)
    try:
        return _families(model, call, loss_fn, few)
    except Exception as problem:
        warnings.warn(
            "no symmetries could be looked for, only the sharpness is followed. "
            f"{type(problem).__name__}: {str(problem)[:200]}",
            stacklevel=6,
        )
        return ()


def _families(model: nn.Module, call: Call, loss_fn: LossFn[B], few: B) -> tuple[Family, ...]:
    precise_few = doubled(few)
    try:  # a penalty on the weights in loss_fn breaks symmetries that the model has
        losses = [lambda twin: loss_fn(twin, precise_few)]
        return find_symmetries(model, call, as_trained=True, losses=losses).families
    except (RuntimeError, TypeError):  # loss_fn holds tensors of its own precision
        return find_symmetries(model, call, as_trained=True).families
