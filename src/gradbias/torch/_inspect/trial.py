"""Some real steps of the real optimiser, on copies of both, and what they did to the charges."""

import dataclasses
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from .._find.family import Family
from .._measure.batches import LossFn
from .._measure.duplicate import duplicate
from .._measure.own_step import rebound
from .._measure.undisturbed import Named, gradient, precise, smooth, trainable
from .._monitor.steps import ChargeSplit, Steps, charges

STEPS = 10


@dataclasses.dataclass(frozen=True)
class ChargeTrial:
    """What the steps did to one family.

    Attributes:
        change: Σ|ΔC| over units, over Σ(in² + out²).
        first_order: share of first order in the step, without decay and rounding.
        decay: Σ|ΔC| by weight decay, over Σ(in² + out²).
    """

    change: float
    first_order: float
    decay: float


def tried(
    model: nn.Module,
    optimizer: Optimizer,
    loss_fn: LossFn[Any],
    batch: object,
    families: list[Family],
) -> dict[str, ChargeTrial]:
    """By family name, in the model's own mode, with dropout and batch statistics if they are on."""
    twin = duplicate(model)
    inner = _rebound(model, optimizer, twin)
    params: Named = dict(twin.named_parameters())
    trained = trainable(twin)
    wanted = {name for family in families for name in family.parameters}
    steps = Steps(inner, {n: p for n, p in params.items() if n in wanted}, families)
    start = charges(params, families)
    total: dict[str, ChargeSplit] = {}
    devices = sorted({p.device.index or 0 for p in params.values() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), smooth():
        for _ in range(STEPS):
            slopes = gradient(loss_fn(twin, batch), trained)
            for name, p in trained.items():
                p.grad = slopes[name]
            steps.before()
            with torch.no_grad():
                inner.step()
            total = {name: split.plus(total.get(name)) for name, split in steps.after().items()}
    end = charges(params, families)
    held: Named = {name: precise(p.detach()) for name, p in params.items()}
    return {
        f.name: _moved(
            total[f.name], end[f.name] - start[f.name], _size(f, held), _rounding(f, params)
        )
        for f in families
    }


def _size(family: Family, params: Named) -> float:
    return sum(float(side.sum()) for side in family.halves(params, params))


def _rounding(family: Family, params: Named) -> float:
    """How far rounding of the weights may move charges, over in² + out²."""
    return STEPS * max(torch.finfo(params[name].dtype).eps for name in family.parameters)


def _rebound(model: nn.Module, optimizer: Optimizer, twin: nn.Module) -> Optimizer:
    named: Named = dict(model.named_parameters())
    twins: Named = dict(twin.named_parameters())
    return rebound(optimizer, named, twins)


def _moved(split: ChargeSplit, change: torch.Tensor, size: float, rounding: float) -> ChargeTrial:
    first = max(0.0, float(split.first_order.abs().sum()) - rounding * size)
    step2 = float(split.step2.abs().sum())
    scale = size or 1.0
    return ChargeTrial(
        float(change.abs().sum()) / scale,
        first / (first + step2) if first + step2 else 0.0,
        float(split.decay.abs().sum()) / scale,
    )
