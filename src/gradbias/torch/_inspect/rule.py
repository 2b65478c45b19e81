"""What an optimiser's settings say about the laws of its steps."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

from .._find.family import Family
from .._measure.undisturbed import Named
from .._monitor.steps import group_of

# Each coordinate by its own gradients: no sum of squares is kept.
COORDINATEWISE = (
    *(Adam, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax, torch.optim.Adagrad),
    *(torch.optim.RMSprop, torch.optim.Adadelta, torch.optim.Rprop),
)


@dataclasses.dataclass(frozen=True)
class Rule:
    """How some parameters are moved.

    Attributes:
        name: of the optimiser, in words.
        plain: torch's own SGD, without dampening, that descends.
        coordinatewise: Adam and its kind.
        trained: does the optimiser move all of them?
        even: do all of them have the same settings?
        lr: learning rate; nan if the optimiser has none.
        momentum: β.
        nesterov: torch's flag.
        decay: torch's weight decay.
        decoupled: does decay act on the weights themselves, and not through the gradient?
    """

    name: str
    plain: bool
    coordinatewise: bool
    trained: bool
    even: bool
    lr: float
    momentum: float
    nesterov: bool
    decay: float
    decoupled: bool

    @property
    def rate(self) -> float:
        """lr/(1 − β): what a constant force moves a step in the long run."""
        return self.lr / (1 - self.momentum)

    @property
    def obstacle(self) -> str:
        """Why no law of plain SGD can be read for these parameters; empty if one can."""
        if not self.trained:
            return "the optimiser does not move all of their parameters"
        if not self.even:
            return "their parameters have different learning rates or weight decays"
        if not self.plain:
            return f"it is no law of {self.name}"
        return ""


def rule_of(optimizer: Optimizer, params: Named) -> Rule:
    """The rule for some of a model's parameters.

    Args:
        optimizer: unwrapped.
        params: by name.
    """
    groups = group_of(optimizer, params)
    known = [group for group in groups.values() if group is not None]
    settings = {_settings(group) for group in known}
    group = known[0] if known else optimizer.param_groups[0]
    lr, momentum, nesterov, dampening, decay, maximize = _settings(group)
    sgd = type(optimizer) is SGD
    decoupled = type(optimizer) is AdamW or bool(group.get("decoupled_weight_decay"))
    return Rule(
        _name(optimizer, momentum, nesterov),
        sgd and not dampening and not maximize,
        isinstance(optimizer, COORDINATEWISE),
        len(known) == len(groups) > 0,
        len(settings) == 1,
        *(lr, momentum, nesterov, decay, decoupled),
    )


def family_rule(optimizer: Optimizer, params: Named, family: Family) -> Rule:
    """The rule for one family's parameters."""
    return rule_of(optimizer, {name: params[name] for name in family.parameters})


def _settings(group: Mapping[str, Any]) -> tuple[float, float, bool, float, float, bool]:
    lr = group.get("lr")  # some optimisers have none, or None for a schedule of their own
    return (
        math.nan if lr is None else float(lr),
        float(group.get("momentum", 0.0)),
        bool(group.get("nesterov", False)),
        float(group.get("dampening", 0.0)),
        float(group.get("weight_decay", 0.0)),
        bool(group.get("maximize", False)),
    )


def _name(optimizer: Optimizer, momentum: float, nesterov: bool) -> str:
    name = type(optimizer).__name__
    if type(optimizer) is not SGD or not momentum:
        return name
    return "SGD with Nesterov momentum" if nesterov else "SGD with momentum"
