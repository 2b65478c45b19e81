"""What one real step of any optimiser did to the charges, and why.

ΔC = 2⟨Aθ, Δθ⟩ + ⟨AΔθ, Δθ⟩ holds for every step whatever made it. The first term is split into what
weight decay did and the rest: 0 for plain SGD, the memory of momentum, the preconditioner of Adam.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.optim import SGD, AdamW, Optimizer

from .._find.family import Family
from .._measure.step_rules import MUON
from .._measure.undisturbed import Named, precise


class ChargeSplit(NamedTuple):
    """The change of the charges of one family in one step, or summed over steps; (units,) each.

    Attributes:
        decay: by weight decay.
        first_order: 2⟨Aθ, Δθ⟩ without it.
        step2: ⟨AΔθ, Δθ⟩.
    """

    decay: torch.Tensor
    first_order: torch.Tensor
    step2: torch.Tensor

    @property
    def total(self) -> torch.Tensor:
        """ΔC."""
        return self.decay + self.first_order + self.step2

    def plus(self, other: "ChargeSplit | None") -> "ChargeSplit":
        """The sum of two."""
        if other is None:
            return self
        return ChargeSplit(*(a + b for a, b in zip(self, other, strict=True)))


def decays_directly(optimizer: Optimizer, group: Mapping[str, Any]) -> bool:
    """Does a step contain −lr·wd·θ itself? Adam's L2 penalty goes through its preconditioner."""
    direct = (SGD, AdamW) if MUON is None else (SGD, AdamW, MUON)
    return isinstance(optimizer, direct) or bool(group.get("decoupled_weight_decay"))


class Steps:
    """Splits steps of an optimiser; nothing here waits for the device.

    Args:
        optimizer: the one that takes the steps.
        params: the families' parameters, by name.
        families: whose charges.
    """

    def __init__(self, optimizer: Optimizer, params: Named, families: Sequence[Family]):
        self._optimizer = optimizer
        self._params = params
        self._families = tuple(families)
        self._before: Named = {}
        self._decay: dict[str, float | torch.Tensor] = {}

    def before(self) -> None:
        """Remember θ, and lr·wd of this step."""
        self._before = {name: p.detach().clone() for name, p in self._params.items()}
        groups = group_of(self._optimizer, self._params)
        self._decay = {name: self._rate(group) for name, group in groups.items()}

    def _rate(self, group: Mapping[str, Any] | None) -> float | torch.Tensor:
        if group is None or not decays_directly(self._optimizer, group):
            return 0.0
        return group["lr"] * group.get("weight_decay", 0.0)

    def after(self) -> dict[str, ChargeSplit]:
        """The split of the step, by family name; nothing before the first `before`."""
        if not self._before:
            return {}
        theta = {name: precise(value) for name, value in self._before.items()}
        moved = {name: precise(self._params[name].detach()) - t for name, t in theta.items()}
        shrunk = {name: -self._decay[name] * t for name, t in theta.items()}
        self._before = {}
        splits = {}
        for family in self._families:
            decay = 2 * family.form(theta, shrunk)
            first = 2 * family.form(theta, moved) - decay
            splits[family.name] = ChargeSplit(decay, first, family.form(moved, moved))
        return splits


def group_of(optimizer: Optimizer, params: Named) -> dict[str, dict[str, Any] | None]:
    """The parameter group of every parameter; None for one that is not optimised."""
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    return {name: groups.get(id(p)) for name, p in params.items()}


def charges(params: Named, families: Sequence[Family]) -> dict[str, torch.Tensor]:
    """C = θᵀAθ by family name, in float64."""
    theta = {name: precise(p.detach()) for name, p in params.items()}
    return {family.name: family.form(theta, theta) for family in families}
