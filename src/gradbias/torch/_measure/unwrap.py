"""From what a training loop holds to the plain model and optimiser inside."""

import contextlib
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim import Optimizer


class Unwrapped(NamedTuple):
    """The model as its author wrote it.

    Attributes:
        model: without torch.compile and DistributedDataParallel.
        speaks: does this process measure and log? Only rank 0 of several does.
        world: how many processes share a batch.
    """

    model: nn.Module
    speaks: bool
    world: int


def unwrap_model(model: nn.Module) -> Unwrapped:
    """Take off torch.compile, DataParallel and DistributedDataParallel; refuse sharded models."""
    world = 1
    rank = 0
    while True:
        # By name: importing FSDP to ask for it would cost everybody a second.
        if any(kind.__name__ == "FullyShardedDataParallel" for kind in type(model).__mro__):
            _refuse_shards()
        if isinstance(model, DistributedDataParallel):
            world = torch.distributed.get_world_size()
            rank = torch.distributed.get_rank()
            model = model.module
        elif isinstance(model, DataParallel):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):
            # torch.compile: there is no public name for the module inside.
            model = model._orig_mod  # pyright: ignore[reportAssignmentType]
        else:
            break
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if any(type(p).__name__ == "DTensor" for p in model.parameters()):
        _refuse_shards()
    return Unwrapped(model, rank == 0, world)


def is_meta(model: nn.Module) -> bool:
    """Are there parameters on the meta device, which have shapes and no numbers?"""
    return any(p.is_meta for p in model.parameters())


def made_where(model: nn.Module) -> contextlib.AbstractContextManager[object]:
    """A context in which what a model makes is on the meta device if its parameters are."""
    return torch.device("meta") if is_meta(model) else contextlib.nullcontext()


def refuse_meta(model: nn.Module) -> None:
    """Say that nothing can be measured without numbers."""
    if is_meta(model):
        raise ValueError(
            "model must have numbers, got parameters on the meta device: only "
            "gradbias.torch.symmetries works there, without its check"
        )


def _refuse_shards() -> None:
    raise ValueError(
        "model is sharded (FSDP): no process holds whole layers, so that their balance cannot be "
        "measured inside the loop. Save a full checkpoint, load it into the plain model and use "
        "gradbias.torch.inspect on it"
    )


@runtime_checkable
class OptimizerWrapper(Protocol):
    """What trainers put around an optimiser."""

    optimizer: Optimizer


def unwrap_optimizer(optimizer: Optimizer | OptimizerWrapper) -> Optimizer:
    """The optimiser that takes the step: Lightning and accelerate wrap it."""
    inner = getattr(optimizer, "optimizer", None)
    while isinstance(inner, Optimizer):
        optimizer = inner
        inner = getattr(inner, "optimizer", None)
    if not isinstance(optimizer, Optimizer):
        raise ValueError(
            f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}"
        )
    return optimizer
