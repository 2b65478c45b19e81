"""A batch is a tensor, or tuples, lists and dicts of tensors whose first axis counts samples."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard, TypeVar

import torch
import torch.utils.data

B = TypeVar("B")  # a batch, as the loss takes it
LossFn = Callable[[torch.nn.Module, B], torch.Tensor]


def leaves(batch: object) -> list[torch.Tensor]:
    """The tensors of a batch, in order."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    if isinstance(batch, Mapping):
        return [leaf for value in batch.values() for leaf in leaves(value)]
    if isinstance(batch, tuple | list):
        return [leaf for value in batch for leaf in leaves(value)]
    return []


def mapped(function: Callable[[torch.Tensor], torch.Tensor], batch: B) -> B:
    """The same batch with every tensor replaced; what is not a tensor stays as it is."""
    return _mapped(function, batch)


def _mapped(function: Callable[[torch.Tensor], torch.Tensor], batch: object) -> Any:
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        values = {key: _mapped(function, value) for key, value in batch.items()}
        # Tokenisers return their own dicts, which a loss may call methods of.
        return values if type(batch) is dict else _rebuilt(batch, values)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_mapped(function, value) for value in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(_mapped(function, value) for value in batch)
    return batch


def _rebuilt(batch: Mapping[str, Any], values: dict[str, Any]) -> Mapping[str, Any]:
    try:
        return type(batch)(values)  # pyright: ignore[reportCallIssue]
    except TypeError:
        return values


def size(batch: object) -> int:
    """How many samples a batch has, or a ValueError when its tensors do not agree."""
    tensors = leaves(batch)
    if not tensors:
        hint = ": pass one batch, next(iter(loader))" if is_loader(batch) else " without any"
        raise ValueError(
            "batch must be a tensor, or a tuple, list or dict of tensors, "
            f"got {type(batch).__name__}{hint}"
        )
    sizes = {int(t.shape[0]) if t.ndim else None for t in tensors}
    if len(sizes) != 1 or None in sizes or 0 in sizes:
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
        raise ValueError(
            f"batch must have its samples along the first axis of every tensor, got shapes {shapes}"
        )
    return int(tensors[0].shape[0])


def part(batch: B, start: int, stop: int) -> B:
    """Samples start … stop − 1."""
    return mapped(lambda t: t[start:stop], batch)


def on_device(batch: B, model: torch.nn.Module) -> B:
    """The batch where the model's parameters are."""
    device = next((p.device for p in model.parameters()), None)
    return batch if device is None else mapped(lambda t: t.to(device), batch)


def as_loss(loss_fn: LossFn[B] | torch.nn.Module) -> LossFn[B]:
    """The loss as a function of model and batch; a criterion of torch is put around the model.

    Args:
        loss_fn: `loss_fn(model, batch)`, or a criterion such as `nn.CrossEntropyLoss()`, for
            batches (inputs, targets).
    """
    if not isinstance(loss_fn, torch.nn.Module):
        if callable(loss_fn):
            return loss_fn
        raise ValueError(
            "loss_fn must be a function loss_fn(model, batch) or a criterion such as "
            f"nn.CrossEntropyLoss(), got {type(loss_fn).__name__}"
        )
    criterion = loss_fn
    name = type(criterion).__name__
    reduction = getattr(criterion, "reduction", "mean")
    if reduction not in ("mean", "batchmean"):
        raise ValueError(
            f"loss_fn must be the mean over the samples, got {name}(reduction={reduction!r}): "
            f"use {name}(reduction='mean')"
        )

    def loss(model: torch.nn.Module, batch: B) -> torch.Tensor:
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            raise ValueError(
                f"batch must be (inputs, targets) for {name}, got {type(batch).__name__}: write "
                "loss_fn(model, batch) yourself for other batches"
            )
        return criterion(model(batch[0]), batch[1])

    return loss


def called(loss_fn: LossFn[B], model: torch.nn.Module, batch: B) -> object:
    """What loss_fn returns, tensor or not; other arguments are answered with a sentence."""
    try:
        return loss_fn(model, batch)
    except TypeError as error:
        raise ValueError(
            "loss_fn is called with the model and the batch, loss_fn(model, batch), in this order, "
            f"which ended in: {error}"
        ) from error


def is_loader(value: object) -> TypeGuard[Iterable[Any]]:
    """Is it something that hands out batches, such as a DataLoader?"""
    return not isinstance(value, torch.Tensor | Mapping | tuple | list) and isinstance(
        value, Iterable
    )


def held(probe: B | Iterable[B], model: torch.nn.Module) -> B:
    """One batch to measure on, the same at every measurement.

    A loader is asked for its first batch once: were it asked again, a shuffling one would hand
    over other samples, and their difference would look like a change of the model.

    Args:
        probe: a batch, or a loader of batches.
        model: says on which device.
    """
    batch: Any = probe
    if is_loader(probe):
        if isinstance(getattr(probe, "sampler", None), torch.utils.data.RandomSampler):
            warnings.warn(
                "probe shuffles: its first batch is kept for this run, but another run will be "
                "measured on other samples. Pass one fixed batch, or a loader with shuffle=False.",
                stacklevel=3,
            )
        batch = next(iter(probe), None)
        if batch is None:
            raise ValueError("probe must hold at least one batch, got an empty loader")
    size(batch)
    # A copy: the caller may reuse the buffers of a batch.
    return on_device(mapped(lambda t: t.detach().clone(), batch), model)
