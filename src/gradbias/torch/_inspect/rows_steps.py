"""Rows about steps: how long, how noisy, what they keep and what decay does."""

import math

import numpy as np

from .._find.family import Family
from .facts import Facts
from .findings import APPLIES, NEARLY, NOT, Finding
from .rule import Rule

FIRST_ORDER = 0.05  # a larger share of first order is no rounding of a law of second order


def stable_rate(rule: Rule, curvature: float) -> float:
    """The largest rate at which torch's SGD does not grow on a quadratic of this curvature.

    lr·h < 2(1 + β) for heavy ball and 2(1 + β)/(1 + 2β) for Nesterov, h with weight decay added.
    """
    h = curvature + (0.0 if rule.decoupled else rule.decay)
    if h <= 0:
        return math.inf
    beta = rule.momentum
    return 2 * (1 + beta) / ((1 + 2 * beta if rule.nesterov else 1) * h)


def learning_rate(facts: Facts) -> Finding | None:
    """The learning rate against the limit of a quadratic."""
    peak = facts.at.sharpness
    if peak is None:
        return None
    rule = facts.rule
    law = "a quadratic of curvature h: heavy ball grows beyond lr = 2(1 + β)/h"
    evidence = {"sharpness": peak.value}
    if math.isfinite(rule.lr):
        evidence["lr"] = rule.lr
    if rule.obstacle:
        says = f"2/sharpness is a limit of plain SGD on all that is trained: {rule.obstacle}"
        return Finding("learning rate", NOT, says, evidence, law)
    if not peak.converged or peak.value <= 0:
        return Finding("learning rate", NOT, "no positive curvature is known", evidence, law)
    limit = stable_rate(rule, peak.value)
    evidence["limit"] = limit
    share = rule.lr / limit
    says = f"lr is {share:.2g} of the limit of {rule.name} along the sharpest direction"
    if share > 1:
        says += ": there a quadratic moves away; this loss may, or may become flatter"
    says += f"{facts.unlike_training}"
    return Finding(
        "learning rate", NEARLY if facts.unlike_training else APPLIES, says, evidence, law
    )


def own_step(facts: Facts) -> Finding:
    """How far the optimiser's own step may go, by forward passes."""
    law = "L(θ + ηD) = L(θ) at η = −2gᵀD/DᵀHD where L is quadratic along D"
    step = facts.step
    name = facts.rule.name
    if step is None or step.reason or not step.converged:
        why = facts.no_step if step is None else step.reason or "the root was not found in time"
        return Finding("own step", NOT, f"no largest step of {name}: {why}", {}, law)
    says = (
        f"the next step of {name} goes {step.share:.2g} of the way to where the loss is back"
        f"{': it raises the loss' if step.share > 1 else ''}{facts.unlike_training}"
    )
    evidence = {"largest lr": step.lr, "lr": step.current, "sharpness along it": step.value}
    if math.isfinite(step.standard_error):
        evidence["±"] = step.standard_error
    return Finding("own step", NEARLY if facts.unlike_training else APPLIES, says, evidence, law)


def noisy_layers(facts: Facts) -> Finding | None:
    """Layers of which a batch shows more noise than gradient."""
    loud = [layer for layer in facts.layers if layer.dominates]
    law = "E‖g_S‖² = ‖ḡ‖² + Tr Σ/S for independent samples"
    if not facts.layers:
        return None
    if not loud:
        says = f"in no layer is a batch of {facts.batch_size} mostly noise"
        return Finding("noise", NOT, says, {}, law)
    loud.sort(key=lambda layer: -layer.noise / max(layer.signal, 1e-300))
    worst = loud[0]
    names = ", ".join(layer.name for layer in loud[:4]) + (" …" if len(loud) > 4 else "")
    says = (
        f"in {len(loud)} of {len(facts.layers)} layers ({names}) a batch of {facts.batch_size} is "
        f"mostly noise: a larger batch, or averages, tell more there{facts.unlike_training}"
    )
    evidence = {"Tr Σ/S": worst.noise / facts.batch_size, f"‖ḡ‖² of {worst.name}": worst.signal}
    return Finding("noise", NEARLY if facts.unlike_training else APPLIES, says, evidence, law)


def conservation(facts: Facts) -> list[Finding]:
    """Which charges this optimiser keeps, and which it does not."""
    if not facts.two_sided:
        says = "no rescaling in and out of units was found: nothing to keep"
        return [Finding("conservation", NOT, says, {}, "equilibrium.eq4")]
    kept: list[Family] = []
    broken: dict[str, list[Family]] = {}
    for family in facts.two_sided:
        why = _broken(facts, family)
        if why:
            broken.setdefault(why, []).append(family)
        else:
            kept.append(family)
    rows = [_kept(facts, kept)] if kept else []
    return rows + [_not_kept(facts, why, families) for why, families in list(broken.items())[:2]]


def _broken(facts: Facts, family: Family) -> str:
    rule = facts.rule_for(family)
    if rule.obstacle:
        return rule.obstacle
    moved = facts.moved.get(family.name)
    if moved is None or not math.isfinite(moved.change):
        return "steps on a copy diverged"
    if not rule.momentum and moved.first_order > FIRST_ORDER:
        return "steps on a copy moved them at first order"
    return ""


def _evidence(facts: Facts, families: list[Family]) -> dict[str, float]:
    moved = [facts.moved[f.name] for f in families if f.name in facts.moved]
    if not moved:
        return {}
    return {
        "|ΔC|/Σ(in² + out²) in 10 steps": float(np.mean([m.change for m in moved])),
        "first-order share": float(np.mean([m.first_order for m in moved])),
    }


def _kept(facts: Facts, families: list[Family]) -> Finding:
    rule = facts.rule_for(families[0])
    units = sum(f.units for f in families)
    says = f"{rule.name} keeps in² − out² of {units} units up to lr²(ḡᵀAḡ + Tr ΣA/S) a step"
    law = "equilibrium.eq98"
    if rule.momentum:
        beta = rule.momentum
        factor = (1 + beta) / (1 - beta)
        says += f", at lr/(1 − β) and, of the smooth part, {factor:.3g} times as much"
        law = "optimiser.charge_sum"
    if rule.decay:
        says += "; and up to weight decay"
    return Finding("conservation", NEARLY, says, _evidence(facts, families), law)


def _not_kept(facts: Facts, why: str, families: list[Family]) -> Finding:
    rule = facts.rule_for(families[0])
    units = sum(f.units for f in families)
    says = f"in² − out² of {units} units is not kept: {why}"
    law = "equilibrium.eq4"
    if rule.coordinatewise and rule.trained and rule.even:
        says += "; equal steps of signs would keep |u| − |v| of a product of two single weights"
        law = "optimiser.sign_charge"
    return Finding("not conserved", NOT, says, _evidence(facts, families), law)


def decay(facts: Facts) -> Finding | None:
    """What weight decay does to the charges."""
    rules = {f.name: facts.rule_for(f) for f in facts.two_sided}
    pulled = [f for f in facts.two_sided if rules[f.name].decay]
    if not pulled:
        return None
    law = "equilibrium.decay"
    rule = rules[pulled[0].name]
    uneven = [f for f in pulled if not (rules[f.name].trained and rules[f.name].even)]
    if uneven:
        says = f"weight decay acts on some of the parameters of {uneven[0].name} and not on others"
        return Finding("decay", NOT, says, {}, law)
    if not (rule.plain or rule.decoupled):
        says = (
            f"the decay of {rule.name} goes through its own scaling of steps: no pull on in² − out²"
        )
        return Finding("decay", NOT, says, {}, law)
    half = steps_to_half(rule)
    if math.isnan(half):
        return Finding("decay", NOT, "lr·wd is so large that weights overshoot 0", {}, law)
    evidence = {"steps to half": half}
    moved = [facts.moved[f.name].decay for f in pulled if f.name in facts.moved]
    evidence["of Σ(in² + out²) in 10 steps"] = float(np.mean(moved)) if moved else math.nan
    if rule.plain and not rule.momentum:
        says = "weight decay alone takes in² − out² to 0 as (1 − lr·wd)²ᵏ; noise adds to it"
        return Finding("decay", APPLIES, says, evidence, law)
    if rule.plain:
        says = (
            "weight decay alone takes in² − out² to 0 at the rate 2·lr·wd/(1 − β), once under way"
        )
    else:
        says = (
            f"decay alone would take in² − out² to 0 as (1 − lr·wd)²ᵏ; the steps of {rule.name} "
            "move it, too"
        )
    return Finding("decay", NEARLY, says, evidence, law)


def steps_to_half(rule: Rule) -> float:
    """After how many steps decay alone has halved θ², from rest; nan if it overshoots 0.

    Without momentum θ' = (1 − e)θ with e = lr·wd. Of heavy ball z² − (1 + β − e)z + β = 0, of
    Nesterov z² − (1 + β − (1 + β)e)z + β(1 − e) = 0: the larger root is the rate in the long run.
    """
    e = rule.lr * rule.decay
    beta = 0.0 if rule.decoupled else rule.momentum
    first = 1 - (1 + beta) * e if rule.nesterov else 1 - e
    product = beta * (1 - e) if rule.nesterov else beta
    square = (first + beta) ** 2 / 4 - product
    if square < 0:
        return math.nan
    slow = (first + beta) / 2 + square**0.5
    fast = (first + beta) / 2 - square**0.5
    share = (first - fast) / (slow - fast) if slow > fast else math.nan
    if not (0 < slow < 1 and share > 0):
        return math.nan
    return math.log(share * 2**0.5) / -math.log(slow)


def noise_balance(facts: Facts) -> Finding | None:
    """Is gradient noise in and out of units equal, and does this optimiser care?"""
    noises = [facts.at.noise[f.name] for f in facts.two_sided if f.name in facts.at.noise]
    alive = [n for n in noises if np.isfinite(n.ratio).any()]
    if not alive:
        return None
    ratio = np.concatenate([n.ratio for n in alive])
    error = np.concatenate([n.standard_error for n in alive])
    usable = np.isfinite(ratio) & (ratio > 0)
    factor = np.exp(np.abs(np.log(ratio[usable])))
    evidence = {
        "median factor": float(np.median(factor)) if len(factor) else math.nan,
        "relative error": float(np.median(error[usable] / ratio[usable]))
        if len(factor)
        else math.nan,
    }
    law = "equilibrium.eq7"
    obstacles = [facts.rule_for(f).obstacle for f in facts.two_sided]
    if any(obstacles):
        says = f"the noise equilibrium is a law of SGD: {next(filter(None, obstacles))}"
        return Finding("noise balance", NOT, says, evidence, law)
    says = "SGD drifts along every rescaling to where noise in and out is equal, by lr²/S a step"
    return Finding("noise balance", NEARLY, says, evidence, law)
