"""What a step of SGD, momentum or Nesterov does to a charge: exactly, from gradients alone.

As torch writes them: buffer b' = βb + g + wd·θ, step θ' = θ − lr·p with p = b', for Nesterov
p = g + wd·θ + βb'. Convention: charge C = θᵀAθ; torch's weight decay wd is 2γ of L + γ‖θ‖².
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import SGD

from ...numerics.quadratic_step import momentum_increment
from .._find.family import Family
from .._measure.undisturbed import Named, precise


class Law(NamedTuple):
    """Charge and cross term after a step.

    Attributes:
        charge: C' = C − 2·lr·s + lr²·pᵀAp.
        cross: D' = θ'ᵀAb' = a − lr·pᵀAb'.
    """

    charge: torch.Tensor
    cross: torch.Tensor


def step_law(
    charge: torch.Tensor,
    cross: torch.Tensor,
    square: torch.Tensor,
    overlap: torch.Tensor,
    *,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> Law:
    """One step of torch's SGD: with a = βD + wd·C and s = a (Nesterov: wd·C + βa).

    Args:
        charge: C before the step.
        cross: D = θᵀAb before the step; 0 without a buffer.
        square: pᵀAp of the step θ' − θ = −lr·p.
        overlap: pᵀAb' with the new buffer.
        lr: learning rate.
        momentum: β.
        weight_decay: torch's wd = 2γ.
        nesterov: torch's flag.
    """
    change, cross = momentum_increment(
        charge, cross, square, overlap, lr, momentum, weight_decay, nesterov
    )
    return Law(charge + change, cross)


class ChargeLaw:
    """Follows charges through the steps of torch's SGD by their exact law.

    It reads the gradients and buffers that the optimiser sees, never θ after the start: that it
    agrees with the measured charges says that the symmetry holds and nothing else moved them.

    ```python
    law = ChargeLaw(model, optimizer, families)
    ...  # train as always
    law.charge["0 -> 2 (relu)"]
    law.close()
    ```

    Args:
        model: the model that is trained.
        optimizer: `torch.optim.SGD` without dampening.
        families: whose charges.

    Attributes:
        charge: (units,) C by family name.
    """

    charge: dict[str, torch.Tensor]

    def __init__(self, model: nn.Module, optimizer: SGD, families: Sequence[Family]):
        if type(optimizer) is not SGD:
            raise ValueError(
                "optimizer must be torch.optim.SGD for an exact law from gradients alone, got "
                f"{type(optimizer).__name__}: Monitor(..., exact=True) follows any optimiser"
            )
        wanted = {name for family in families for name in family.parameters}
        self._params: Named = {n: p for n, p in model.named_parameters() if n in wanted}
        self._optimizer = optimizer
        self._families = tuple(families)
        self._group = {f.name: _one_group(optimizer, f, self._params) for f in families}
        theta = _values(self._params)
        self._buffer = self._buffers()
        self.charge = {f.name: f.form(theta, theta) for f in families}
        self._cross = {f.name: f.form(theta, self._buffer) for f in families}
        self._forces: Named = {}
        self._handles = (
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        )

    def close(self) -> None:
        """Stop following."""
        for handle in self._handles:
            handle.remove()

    def _buffers(self) -> Named:
        state = self._optimizer.state
        buffers = {}
        for name, p in self._params.items():
            buffer = state[p].get("momentum_buffer") if p in state else None
            buffers[name] = precise(
                torch.zeros_like(p) if buffer is None else buffer.detach()
            ).clone()
        return buffers

    def _before(self, *_: object) -> None:
        # torch's Nesterov step may overwrite the gradients: the sum g + wd·θ is kept from before.
        self._forces = {}
        for name, p in self._params.items():
            if p.grad is None:
                raise ValueError(f"{name} has no gradient: SGD skips it, and the law cannot")
            decay = self._settings(p)["weight_decay"]
            self._forces[name] = precise(p.grad) + decay * precise(p.detach())

    def _after(self, *_: object) -> None:
        for family in self._families:
            group = self._group[family.name]
            beta = group["momentum"]
            nesterov = group["nesterov"]
            force = {name: self._forces[name] for name in family.parameters}
            buffer = {name: beta * self._buffer[name] + g for name, g in force.items()}
            p = {n: g + beta * buffer[n] for n, g in force.items()} if nesterov else buffer
            self.charge[family.name], self._cross[family.name] = step_law(
                *(self.charge[family.name], self._cross[family.name]),
                *(family.form(p, p), family.form(p, buffer)),
                **{key: group[key] for key in ("lr", "momentum", "weight_decay", "nesterov")},
            )
        if any(group["momentum"] for group in self._group.values()):
            self._buffer = self._buffers()

    def _settings(self, p: torch.Tensor) -> dict[str, Any]:
        return next(g for g in self._optimizer.param_groups if any(q is p for q in g["params"]))


def _values(params: Named) -> Named:
    return {name: precise(p.detach()) for name, p in params.items()}


def _one_group(optimizer: SGD, family: Family, params: Named) -> dict[str, Any]:
    """The group of a family's parameters: the law needs one rate for all of them."""
    groups = [
        g
        for g in optimizer.param_groups
        if any(q is params[name] for q in g["params"] for name in family.parameters)
    ]
    members = {id(q) for g in groups for q in g["params"]}
    if len(groups) != 1 or any(id(params[name]) not in members for name in family.parameters):
        raise ValueError(
            f"the parameters of {family.name!r} must be in one parameter group of the optimizer, "
            f"got {len(groups)}: the law needs one learning rate and weight decay for all of them"
        )
    if groups[0]["dampening"] or groups[0]["maximize"]:
        raise ValueError("optimizer must have no dampening and maximize=False for the exact law")
    return groups[0]
