"""Weight decay as a budget: how much of its ball every tensor uses, and what decides its size."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from ...theory.optimisers import signal_share
from .._find.family import Family
from .angular_momentum import angular_momentum
from .budget_table import AT_BOX, Budget, TensorBudget
from .spectral_norm import spectral_norm
from .step_rules import OptimiserRule, step_rule
from .undisturbed import Named, precise, trainable
from .unwrap import OptimizerWrapper, refuse_meta, unwrap_model, unwrap_optimizer


def budget(
    model: nn.Module,
    optimizer: Optimizer | OptimizerWrapper,
    before: Mapping[str, torch.Tensor] | None = None,
) -> Budget:
    r"""How much of the ball of weight decay every tensor uses, and what its steps are made of.

    Decoupled decay λ keeps a tensor in a ball: max|w| ≤ 1/λ under AdamW, σ_max ≤ c/λ under Muon.
    Where gradients are noise, AdamW makes λ·rms(w) = √(ηλ/2): a layer between this floor and 1 has
    its size from the loss, one on the floor has it from decay. All numbers are sums, maxima and
    products with a tensor and cost O(parameters); learning rates, decay and memory are read from
    the optimiser, and one that is not torch's own is named in `not_known` instead of guessed.

    ```python
    print(gbt.budget(model, optimizer))        # after optimizer.step()
    ```

    Args:
        model: the model that is trained, whole on this process.
        optimizer: `torch.optim.AdamW`, `Adam`, `Muon` or `SGD`, after some steps.
        before: parameters before the last step, by name. With them the Frank–Wolfe gap is that of
            the point at which gradients were taken, and SGD and Muon, too, have an update and an
            angle; Adam's are read from its state.
    """
    plain = unwrap_model(model).model
    refuse_meta(plain)
    return measure_budget(trainable(plain), unwrap_optimizer(optimizer), before or {}, (), {})


def measure_budget(
    params: Named,
    optimizer: Optimizer,
    before: Mapping[str, torch.Tensor],
    families: tuple[Family, ...],
    starts: dict[str, torch.Tensor],
) -> Budget:
    """The same for parameters by name.

    Args:
        params: of the model.
        optimizer: the one that takes the steps.
        before: those before the last step.
        families: whose angular momentum is wanted, too; it needs `before`.
        starts: singular vectors of the last measurement, by name; it is filled for the next one.
    """
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    rows = []
    unread = []
    for name, p in params.items():
        rule = step_rule(optimizer, groups[id(p)], p) if id(p) in groups else None
        if rule is not None and p.numel():
            rows.append(_tensor(name, p, rule, before.get(name), starts))
        elif id(p) in groups:
            unread.append(name)
    rotations = {
        family.name: angular_momentum(family, before, params)
        for family in families
        if all(name in before for name in family.parameters)
    }
    known = {name: value for name, value in rotations.items() if not math.isnan(value)}
    return Budget(tuple(rows), known, _not_known(optimizer, unread))


def _not_known(optimizer: Optimizer, names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    kind = type(optimizer)
    return (
        f"Of {kind.__module__}.{kind.__qualname__} it is not known what a step is: nothing is said "
        f"of {len(names)} tensors ({some}).",
    )


def _tensor(
    name: str,
    p: torch.Tensor,
    rule: OptimiserRule,
    before: torch.Tensor | None,
    starts: dict[str, torch.Tensor],
) -> TensorBudget:
    w = precise(p.detach())
    old = None if before is None else precise(before.detach())
    step = _step(w, rule, old)
    decay = rule.weight_decay
    largest = float(w.abs().max())
    inside = rule.ball and rule.norm == "max"
    size = _rms(step.update)
    return TensorBudget(
        name,
        rule.kind,
        rule.lr,
        decay,
        steps=rule.steps,
        rms=_rms(w),
        largest=largest,
        max_use=decay * largest if inside else math.nan,
        rms_use=decay * _rms(w) if inside else math.nan,
        floor=rule.floor,
        at_box=float((decay * w.abs() > AT_BOX).double().mean()) if inside else math.nan,
        spectral_use=_spectral(name, p, rule, starts),
        gap=_gap(w if old is None else old, p.grad, rule) if inside else math.nan,
        update_rms=size,
        noise_update=rule.noise_update,
        signal=_signal(size, rule.noise_update) if rule.signal else math.nan,
        angle=step.angle,
        noise_angle=rule.noise_angle,
    )


class _Step(NamedTuple):
    """What the last step did; u is None and the angle nan where that is not known."""

    update: torch.Tensor | None
    angle: float


def _step(w: torch.Tensor, rule: OptimiserRule, old: torch.Tensor | None) -> _Step:
    """From the state if it tells u: differences of weights have lost digits."""
    shrink = 1 - rule.lr * rule.weight_decay if rule.decoupled else 1.0
    update = rule.update
    if update is None and old is not None and rule.lr > 0:
        update = (shrink * old - w) / rule.lr
    if update is None or shrink <= 0:
        return _Step(update, math.nan)
    moved = rule.lr * update
    if old is None or rule.update is not None:
        old = (w + moved) / shrink
    length = float(old.norm())
    if length == 0:
        return _Step(update, math.nan)
    d = (shrink - 1) * old - moved
    along = float((d * old).sum()) / length
    across = float((d - along / length * old).norm())
    return _Step(update, math.atan2(across, length + along))


def _gap(w: torch.Tensor, slope: torch.Tensor | None, rule: OptimiserRule) -> float:
    """‖g‖₁ + λ⟨w, g⟩ over ‖g‖₁: 0 where the tensor is stationary in its box, 1 without a pull."""
    if slope is None:
        return math.nan
    g = rule.sign * precise(slope.detach())
    size = float(g.abs().sum())
    return 1 + rule.weight_decay * float((w * g).sum()) / size if size > 0 else math.nan


def _spectral(
    name: str, p: torch.Tensor, rule: OptimiserRule, starts: dict[str, torch.Tensor]
) -> float:
    """λσ_max/c: 1 at the ball of Muon."""
    if not (rule.ball and rule.norm == "spectral"):
        return math.nan
    largest, vector = spectral_norm(p, starts.get(name))
    if vector is not None:
        starts[name] = vector
    return rule.weight_decay * largest / rule.scale


def _signal(size: float, noise_update: float) -> float:
    """μ²/(μ² + σ²), by `gb.theory.optimisers.signal_share`."""
    floor = noise_update**2
    if math.isnan(size):
        return math.nan
    return float(signal_share(size, (1 - floor) / (1 + floor)))


def _rms(value: torch.Tensor | None) -> float:
    return math.nan if value is None else float(value.square().mean().sqrt())
