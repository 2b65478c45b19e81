"""The step that an optimiser would take next, without taking it."""

import copy
from collections.abc import Mapping

import torch
from torch.optim import Optimizer

from .undisturbed import Named


def rebound(optimizer: Optimizer, params: Mapping[str, torch.Tensor], twins: Named) -> Optimizer:
    """A copy of an optimiser, with its memory, that moves other tensors.

    Hooks on its steps, such as those of a monitor, are not copied.

    Args:
        optimizer: left as it is.
        params: what it moves, by name.
        twins: what the copy moves instead.
    """
    memo: dict[int, object] = {id(p): twins[name] for name, p in params.items()}
    try:
        return copy.deepcopy(optimizer, memo)
    except Exception as problem:
        raise ValueError(
            f"optimizer must be one that can be copied, got {type(optimizer).__name__}: {problem}"
        ) from problem


def own_step(optimizer: Optimizer, params: Named, gradient: Named) -> Named:
    """θ' − θ of the optimiser's next step on this gradient; only what it moves.

    Args:
        optimizer: its memory and settings are used and not changed.
        params: the model's parameters, by name.
        gradient: in the place of `.grad`, by name.
    """
    moved = {id(p) for group in optimizer.param_groups for p in group["params"]}
    chosen = {name: p for name, p in params.items() if id(p) in moved}
    if not chosen:
        raise ValueError("optimizer must move parameters of this model, got one that moves none")
    twins: Named = {name: p.detach().clone().requires_grad_() for name, p in chosen.items()}
    twin = rebound(optimizer, chosen, twins)
    for name, p in twins.items():
        p.grad = gradient[name].detach().clone() if name in gradient else None
    try:
        twin.step()
    except TypeError as problem:
        raise ValueError(
            f"optimizer must take its step from gradients alone, got {type(optimizer).__name__}, "
            f"which asks for more ({problem}): pass what it would do as an update by name"
        ) from problem
    return {name: p.detach() - chosen[name].detach() for name, p in twins.items()}
