"""Rows about scales: units out of balance, dead units, weights whose size means nothing."""

import math
from typing import Any

import numpy as np
import torch

from .._find.family import Family
from .._measure.duplicate import duplicate
from .._measure.own_step import rebound
from .._measure.undisturbed import Named, undisturbed
from .._measure.update_sharpness import UpdateSharpness, update_sharpness
from .._move.balance import balance
from .facts import Facts, frozen_statistics
from .findings import APPLIES, NEARLY, NOT, Finding

UNEVEN = 3.0  # a factor between norms in and out that is worth a row
GAIN = 1.1  # by how much sharpness must fall for balance to be said to help
LEAST_NORM = "of all weights that compute the same, balance takes the smallest"


def balanced(facts: Facts) -> Finding | None:
    """Units whose norms in and out differ, and what balance does about it on a copy."""
    factors = {f.name: _factors(f, facts) for f in facts.two_sided}
    uneven = {name: int((factor > UNEVEN).sum()) for name, factor in factors.items()}
    count = sum(uneven.values())
    peak = facts.at.sharpness
    if not count or peak is None:
        return None
    worst = max(float(factor.max(initial=1.0)) for factor in factors.values())
    total = sum(len(factor) for factor in factors.values())
    where = ", ".join(name for name, n in uneven.items() if n)
    says = f"{count} of {total} units have norms in and out that differ by more than 3× ({where})"
    twin = duplicate(facts.model)
    optimizer = rebound(facts.optimizer, facts.params, _named(twin))
    try:
        jump = balance(twin, optimizer=optimizer, loss_fn=facts.loss_fn, batch=facts.batch)
    except ValueError as problem:
        return Finding(
            "balance", NOT, f"{says}; balance refuses: {problem}", {"worst": worst}, LEAST_NORM
        )
    after = jump.after.sharpness
    if after is None:
        return None
    evidence = {
        "worst factor": worst,
        "sharpness before": peak.value,
        "after": after.value,
        "outputs changed by": jump.difference,
    }
    step = _own_step(twin, optimizer, facts)
    if facts.step is not None and step is not None:
        evidence |= {"largest stable lr before": facts.step.lr, "lr after": step.lr}
    helps = after.value * GAIN < peak.value and peak.converged and after.converged
    narrower = step is not None and facts.step is not None and not step.lr >= facts.step.lr
    if helps and not narrower:
        says += (
            "; balance(model) lowers the sharpness: room for a larger lr, no lower loss by itself"
        )
        return Finding("balance", APPLIES, says, evidence, LEAST_NORM)
    says += "; on a copy balance(model) did not " + (
        "lower the sharpness" if not helps else "lengthen the step that this optimiser may take"
    )
    return Finding("balance", NOT, says, evidence, LEAST_NORM)


def _named(model: torch.nn.Module) -> Named:
    return dict(model.named_parameters())


def _own_step(
    twin: torch.nn.Module, optimizer: torch.optim.Optimizer, facts: Facts
) -> UpdateSharpness | None:
    batch: Any = facts.batch
    try:
        return update_sharpness(twin, optimizer, facts.loss_fn, batch)
    except ValueError:
        return None


def _alive(family: Family, facts: Facts) -> np.ndarray:
    ratio = facts.at.ratio[family.name]
    alive = np.isfinite(ratio) & (ratio > 0)
    noise = facts.at.noise.get(family.name)
    return alive & ~noise.dead if noise is not None else alive


def _factors(family: Family, facts: Facts) -> np.ndarray:
    ratio = facts.at.ratio[family.name][_alive(family, facts)]
    return np.exp(np.abs(np.log(ratio)))


def dead(facts: Facts) -> Finding | None:
    """Units that no sample of the batch reaches."""
    families = [f for f in facts.two_sided if f.name in facts.at.noise]
    off = {f.name: facts.at.noise[f.name].dead for f in families}
    count = int(sum(mask.sum() for mask in off.values()))
    if not count:
        return None
    twin = duplicate(facts.model)
    with undisturbed(twin), torch.no_grad():
        before = float(facts.loss_fn(twin, facts.batch))
        silence(twin, families, off)
        change = abs(float(facts.loss_fn(twin, facts.batch)) - before)
    total = sum(f.units for f in families)
    rule = facts.rule
    stays = rule.plain and not rule.decay and not rule.momentum
    fate = "SGD leaves them where they are" if stays else "only decay and memory move them"
    return Finding(
        "dead units",
        APPLIES,
        f"{count} of {total} units get no gradient from any sample of the batch; on it {fate}",
        {"loss change without them": change},
        "a step is made of gradients; what gets none is not trained",
    )


def silence(twin: torch.nn.Module, families: list[Family], off: dict[str, np.ndarray]) -> None:
    """Set what comes out of some units to 0."""
    for family in families:
        scale = torch.from_numpy(1.0 - off[family.name])
        for part in family.parts:
            p = twin.get_parameter(part.parameter)
            if part.mu < 0:
                p.mul_(part.factors(p, scale))


def scale_invariant(facts: Facts) -> Finding | None:
    """Weights whose size does nothing but set their effective learning rate."""
    families = facts.one_sided
    law = "equilibrium.eq5"
    if not families:
        if not frozen_statistics(facts.model):
            return None
        says = (
            "BatchNorm uses running statistics now and removes no scale; in training mode it does"
        )
        return Finding("scale invariance", NOT, says, {}, law)
    rules = [facts.rule_for(family) for family in families]
    norms = np.concatenate([_squares(family, facts) for family in families])
    if not all(rule.trained and rule.even for rule in rules):
        says = "the size of their weights is removed, but parts have other learning rates or none"
        return Finding("scale invariance", NOT, says, {}, law)
    names = ", ".join(family.name for family in families[:3])
    rule = rules[0]
    evidence = {"median ‖w‖²": float(np.median(norms))}
    exact = all(family.exact for family in families)
    if rule.plain:
        rates = [r.rate for r, f in zip(rules, families, strict=True) for _ in range(f.units)]
        evidence["median effective lr"] = float(np.median(np.array(rates) / norms))
        says = f"the size of {names} does nothing but set the effective learning rate lr/‖w‖²"
        if not (rule.decay or rule.momentum):
            says += ", which falls, since every step of SGD makes ‖w‖ larger"
    elif rule.coordinatewise:
        says = (
            f"the size of {names} does nothing; under {rule.name} the angle of a step is ∝ lr/‖w‖"
        )
    else:
        says = f"the size of {names} does nothing; what {rule.name} makes of it is not known"
        return Finding("scale invariance", NOT, says, evidence, law)
    held = "" if exact else f"; an epsilon keeps it from being exact ({_worst(families):.0e})"
    return Finding("scale invariance", APPLIES if exact else NEARLY, says + held, evidence, law)


def _worst(families: list[Family]) -> float:
    return max(math.inf if f.holds is None else f.holds for f in families)


def _squares(family: Family, facts: Facts) -> np.ndarray:
    params = {name: p.detach().double() for name, p in facts.params.items()}
    return family.charge(params).abs().cpu().numpy()
