"""How torch's own optimisers move a tensor: read from their groups and state, never guessed."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

from ...theory.optimisers import noise_floor, rotational_equilibrium, update_rms
from .undisturbed import precise

Group = Mapping[str, Any]
MUON: type[Optimizer] | None = getattr(torch.optim, "Muon", None)  # of torch 2.9 and later


class OptimiserRule(NamedTuple):
    """A step w ← (1 − lr·λ)w − lr·u of one tensor, as far as it is known.

    Attributes:
        kind: the optimiser's name.
        lr: η of now.
        weight_decay: λ of now.
        decoupled: does decay act on the weight itself, not through the gradient?
        sign: −1 where the objective is maximised.
        norm: in which the step is steepest: "max" or "spectral"; empty if in neither.
        scale: c, the size of a step in that norm over lr.
        update: u of the last step, where the state tells it.
        steps: how many were taken, where the state tells it.
        noise_update: rms of u where gradients are white noise; nan if it is not known.
        floor: λ·rms(w) there.
        noise_angle: by which a scale-invariant weight turns in a step there.
        signal: does the size of u tell how much of a gradient is signal?
    """

    kind: str
    lr: float
    weight_decay: float
    decoupled: bool
    sign: float = 1.0
    norm: str = ""
    scale: float = 1.0
    update: torch.Tensor | None = None
    steps: int | None = None
    noise_update: float = math.nan
    floor: float = math.nan
    noise_angle: float = math.nan
    signal: bool = False

    @property
    def ball(self) -> bool:
        """Does decay keep the weight in a ball of radius scale/λ?"""
        return bool(self.norm) and self.decoupled and self.weight_decay > 0


def step_rule(optimizer: Optimizer, group: Group, p: torch.Tensor) -> OptimiserRule | None:
    """The rule of one tensor; None where the optimiser is not one of torch's that are known.

    Args:
        optimizer: the one that takes the steps. A subclass may do anything: it is not known.
        group: the parameter group of the tensor.
        p: the tensor.
    """
    read = _KNOWN.get(type(optimizer))
    return None if read is None else read(group, optimizer.state.get(p, {}), p)


def _adam(group: Group, state: Mapping[str, Any], p: torch.Tensor) -> OptimiserRule:
    """Adam and AdamW; amsgrad's steps are smaller, and not those of the theory."""
    lr, decay, sign = _common(group)
    decoupled = bool(group.get("decoupled_weight_decay"))
    beta1, beta2 = (float(beta) for beta in group["betas"])
    plain = not group["amsgrad"]
    rule = OptimiserRule(
        *("AdamW" if decoupled else "Adam", lr, decay, decoupled, sign, "max"),
        update=_adam_update(group, state, beta1, beta2),
        steps=int(state["step"]) if "step" in state else None,
        noise_update=update_rms(beta1) if plain else math.nan,
        # In the gradient decay is signal, too.
        signal=plain and (decoupled or decay == 0),
    )
    if not (plain and rule.ball and lr > 0):
        return rule
    return rule._replace(
        floor=noise_floor(lr, decay),
        noise_angle=update_rms(beta1) * _turn(lr, decay, "unit"),
    )


def _adamw(group: Group, state: Mapping[str, Any], p: torch.Tensor) -> OptimiserRule:
    """Before torch 2.8 its groups do not say that decay is decoupled."""
    return _adam({**group, "decoupled_weight_decay": True}, state, p)


def _adam_update(
    group: Group, state: Mapping[str, Any], beta1: float, beta2: float
) -> torch.Tensor | None:
    if "exp_avg" not in state:
        return None
    count = float(state["step"])
    mean = precise(state["exp_avg"]) / (1 - beta1**count)
    largest = state["max_exp_avg_sq"] if group["amsgrad"] else state["exp_avg_sq"]
    return mean / ((precise(largest) / (1 - beta2**count)).sqrt() + group["eps"])


def _sgd(group: Group, state: Mapping[str, Any], p: torch.Tensor) -> OptimiserRule:
    """No ball: a step is as long as the gradient, in which decay is."""
    lr, decay, sign = _common(group)
    beta = float(group["momentum"])
    rule = OptimiserRule("SGD", lr, decay, False, sign)
    if group["nesterov"] or group["dampening"] or not lr * decay > 0:
        return rule
    return rule._replace(noise_angle=_turn(lr, decay, "sgd", beta))


def _muon(group: Group, state: Mapping[str, Any], p: torch.Tensor) -> OptimiserRule:
    """Torch decays with lr and steps with lr·c, where c is made of the shape."""
    lr, decay, sign = _common(group)
    rows, columns = p.shape
    scale = (
        0.2 * math.sqrt(max(rows, columns))
        if group.get("adjust_lr_fn") == "match_rms_adamw"
        else math.sqrt(max(1, rows / columns))
    )
    return OptimiserRule("Muon", lr, decay, True, sign, "spectral", scale)


def _common(group: Group) -> tuple[float, float, float]:
    decay = float(group.get("weight_decay", 0.0))
    return float(group["lr"]), decay, -1.0 if group.get("maximize") else 1.0


def _turn(lr: float, decay: float, kind: str, momentum: float = 0.0) -> float:
    return rotational_equilibrium(lr, decay, kind=kind, momentum=momentum).angle


Reader = Callable[[Group, Mapping[str, Any], torch.Tensor], OptimiserRule]
_KNOWN: dict[type[Optimizer], Reader] = {Adam: _adam, AdamW: _adamw, SGD: _sgd}
if MUON is not None:
    _KNOWN[MUON] = _muon
