"""How far gradient noise should have moved the charges, against how far they moved."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.optim import SGD, Optimizer

from .._find.family import Family
from .._measure.noise import GradientNoise
from .._measure.undisturbed import Named, precise
from .steps import group_of

_UNKNOWN = (math.nan, math.nan)


class Moved(NamedTuple):
    """Since the first measurement, of one family; (units,) each.

    Attributes:
        predicted: from noise, mean gradient and weight decay.
        observed: of the charges themselves.
    """

    predicted: np.ndarray
    observed: np.ndarray


class PredictedDrift:
    """Adds up lr²(Tr ΣA/S + ḡᵀAḡ) − 2·lr·wd·C over the steps of SGD between measurements.

    Noise, gradient and charges of a stretch are the means of those at its two ends. With momentum β
    the rate that counts is lr/(1 − β). For other optimisers there is no such law: nothing is
    predicted.

    Args:
        optimizer: the one that takes the steps.
        params: the families' parameters, by name.
        families: whose charges.
        batch_size: S, samples in a step over all processes; None if it is not known.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        params: Named,
        families: Sequence[Family],
        batch_size: int | None,
    ):
        self._optimizer = optimizer
        self._params = params
        self._families = tuple(families)
        self.batch_size = batch_size
        self.applies = type(optimizer) is SGD and batch_size is not None
        self.moved: dict[str, Moved] = {}
        self._rates: dict[int, tuple[float, float]] = {}  # Σlr² and Σlr of every group
        self._last: dict[str, tuple[np.ndarray, ...]] = {}

    def step(self) -> None:
        """Before every step: add up lr² and lr. Numbers of the host only."""
        if not self.applies:
            return
        for k, group in enumerate(self._optimizer.param_groups):
            lr = group["lr"]
            if isinstance(lr, torch.Tensor):
                self.applies = False  # reading it would wait for the device at every step
                return
            lr = lr / (1 - group["momentum"])
            square, first = self._rates.get(k, (0.0, 0.0))
            self._rates[k] = (square + lr * lr, first + lr)

    def measured(self, charges: dict[str, np.ndarray], noises: dict[str, GradientNoise]) -> None:
        """After a measurement: close the stretch since the one before."""
        if not (self.applies and noises):
            return
        owner = group_of(self._optimizer, self._params)
        index = {id(g): k for k, g in enumerate(self._optimizer.param_groups)}
        for family in self._families:
            groups = {index.get(id(owner[name]), -1) for name in family.parameters}
            rates = {_UNKNOWN if k < 0 else self._rates.get(k, (0.0, 0.0)) for k in groups}
            # The law is for one rate on both sides of a unit.
            square, first = rates.pop() if len(rates) == 1 else _UNKNOWN
            noise = noises[family.name]
            now = (
                noise.drift / (self.batch_size or 1) + noise.mean_square,
                self._decaying(family, owner),
                charges[family.name],
            )
            self._close(family.name, now, square, first)
        self._rates = {}

    def _decaying(self, family: Family, owner: dict[str, Any]) -> np.ndarray:
        """Σ wd·(θᵀAθ), with the weight decay of each parameter."""
        theta = {name: precise(self._params[name].detach()) for name in family.parameters}
        decay = {name: (owner[name] or {}).get("weight_decay", 0.0) for name in theta}
        scaled = {name: decay[name] * t for name, t in theta.items()}
        return family.form(scaled, theta).cpu().numpy()

    def _close(self, name: str, now: tuple[np.ndarray, ...], square: float, first: float) -> None:
        last = self._last.get(name)
        self._last[name] = now
        if last is None:
            self.moved[name] = Moved(np.zeros_like(now[2]), np.zeros_like(now[2]))
            return
        push, decay = ((a + b) / 2 for a, b in zip(last[:2], now[:2], strict=True))
        before = self.moved[name]
        self.moved[name] = Moved(
            before.predicted + square * push - 2 * first * decay,
            before.observed + now[2] - last[2],
        )

    def explained(self) -> float:
        """1 − Σ(observed − predicted)²/Σ observed², over all units; nan before there is any."""
        if not self.moved:
            return math.nan
        predicted, observed = (
            np.concatenate(side) for side in zip(*self.moved.values(), strict=True)
        )
        good = np.isfinite(predicted)
        total = float(np.sum(observed[good] ** 2))
        return 1 - float(np.sum((observed - predicted)[good] ** 2)) / total if total else math.nan
