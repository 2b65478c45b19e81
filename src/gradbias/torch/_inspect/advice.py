"""At most three sentences of advice, each tried on a copy of the model first."""

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn

from .._find.symmetries import Symmetries
from .._measure.batches import LossFn
from .._measure.duplicate import duplicate
from .._measure.undisturbed import Named, gradient, smooth, trainable, undisturbed
from .._move.balance import balance
from .._move.jump import Snapshot

UNEVEN = 2.0  # an in/out norm ratio beyond this, either way, is worth a try
GAIN = 1.1  # by how much sharpness must fall to say so
STEPS = 30  # of gradient descent, to see whether a learning rate is stable
MOST = 3


@dataclasses.dataclass(frozen=True)
class Advice:
    """One sentence, with the numbers of its trial.

    Attributes:
        sentence: what to do and what it did on a copy.
        evidence: the numbers, by name.
        link: where the documentation says when this helps and when not.
    """

    sentence: str
    evidence: dict[str, float]
    link: str


@dataclasses.dataclass(frozen=True)
class AdviceInputs:
    """What advice is made from."""

    model: nn.Module
    loss_fn: LossFn[Any]
    batch: object
    families: Symmetries
    at: Snapshot
    loss: float
    lr: float | None


def advise(inputs: AdviceInputs) -> tuple[Advice, ...]:
    """What would help, the most useful first."""
    tried = (trial(inputs) for trial in (_balanced, _steady, _dead))
    return tuple(advice for advice in tried if advice is not None)[:MOST]


def _balanced(inputs: AdviceInputs) -> Advice | None:
    """Does balancing make the loss less sharp?"""
    ratios = [inputs.at.ratio[f.name] for f in inputs.families.exact if f.two_sided]
    all_ratios = np.concatenate([np.zeros(0), *ratios])
    usable = all_ratios[np.isfinite(all_ratios) & (all_ratios > 0)]
    worst = float(np.exp(np.abs(np.log(usable)).max(initial=0.0)))
    peak = inputs.at.sharpness
    if worst < UNEVEN or peak is None:
        return None
    twin = duplicate(inputs.model)
    try:
        jump = balance(twin, loss_fn=inputs.loss_fn, batch=inputs.batch)
    except ValueError:
        return None
    after = jump.after.sharpness
    if after is None or not after.value * GAIN < peak.value:
        return None
    return Advice(
        f"Try balance(model): norms in and out of a unit differ by up to {worst:.2g}×, and on a "
        f"copy it lowered the sharpness from {peak.value:.3g} to {after.value:.3g}, so that plain "
        f"SGD may use lr up to {after.lr:.2g} instead of {peak.lr:.2g} (outputs changed by "
        f"{jump.difference:.0e}). That is room for a larger lr, not a promise of a lower loss.",
        {
            "imbalance": worst,
            "sharpness_before": peak.value,
            "sharpness_after": after.value,
            "difference": jump.difference,
        },
        "docs/torch.md#balance",
    )


def _steady(inputs: AdviceInputs) -> Advice | None:
    """Is the learning rate beyond what the sharpness allows, and does it show?"""
    peak = inputs.at.sharpness
    if inputs.lr is None or peak is None or inputs.lr <= peak.lr:
        return None
    high, low = (_descended(inputs, rate) for rate in (inputs.lr, 0.9 * peak.lr))
    if not low < high:
        return None
    return Advice(
        f"Start with a lower lr than {inputs.lr:.2g}, or warm up from {0.9 * peak.lr:.2g}: with "
        f"the batch's gradient alone, {STEPS} steps on a copy took the loss from {inputs.loss:.3g} "
        f"to {high:.3g}, and to {low:.3g} with the lower one.",
        {"loss": inputs.loss, "loss_high_lr": high, "loss_low_lr": low, "lr_allowed": peak.lr},
        "docs/torch.md#sharpness",
    )


def _descended(inputs: AdviceInputs, lr: float) -> float:
    """The loss after a few steps of gradient descent, on a copy; infinite if it diverges."""
    twin = duplicate(inputs.model)
    params = trainable(twin)
    with undisturbed(twin), smooth():
        for _ in range(STEPS):
            g = gradient(inputs.loss_fn(twin, inputs.batch), params)
            with torch.no_grad():
                for name, p in params.items():
                    p.sub_(lr * g[name])
        loss = float(inputs.loss_fn(twin, inputs.batch).detach())
    return loss if np.isfinite(loss) else float("inf")


def _dead(inputs: AdviceInputs) -> Advice | None:
    """Are there units that nothing depends on?"""
    noise = {f.name: inputs.at.noise[f.name] for f in inputs.families if f.two_sided}
    dead = {name: side_noise.dead for name, side_noise in noise.items() if side_noise.dead.any()}
    count = int(sum(d.sum() for d in dead.values()))
    if not count:
        return None
    twin = duplicate(inputs.model)
    with torch.no_grad():
        for name, p in _without(inputs, twin, dead).items():
            twin.get_parameter(name).copy_(p)
    with undisturbed(twin), torch.no_grad():
        change = abs(float(inputs.loss_fn(twin, inputs.batch)) - inputs.loss)
    total = sum(f.units for f in inputs.families if f.name in noise)
    return Advice(
        f"{count} of {total} units got no gradient from any sample ({', '.join(list(dead)[:2])}): "
        f"with their outgoing weights set to 0 on a copy the loss changed by {change:.0e}. "
        "Start with smaller biases or a lower lr, or remove them.",
        {"dead": float(count), "units": float(total), "loss_change": change},
        "docs/torch.md#dead-units",
    )


def _without(inputs: AdviceInputs, twin: nn.Module, dead: dict[str, np.ndarray]) -> Named:
    """The outgoing weights of dead units, set to zero."""
    params: Named = {name: p.detach() for name, p in twin.named_parameters()}
    for family in inputs.families:
        if family.name in dead:
            scale = torch.from_numpy(1.0 - dead[family.name])
            for part in family.parts:
                if part.mu < 0:
                    value = params[part.parameter]
                    params[part.parameter] = value * part.factors(value, scale)
    return params
