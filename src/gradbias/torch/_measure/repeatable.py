"""Before any number: does the same batch give the same loss and gradient twice?"""

import contextlib
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from .batches import B, LossFn, called, mapped, size
from .undisturbed import Named, gradient, norm2, smooth, trainable
from .unwrap import refuse_meta

DOUBLED = 1e-3  # how near to 2 the ratio of a sum is
_HALF = (torch.float16, torch.bfloat16)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_DROPOUT = (
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)


class Repeatable(NamedTuple):
    """What was found, and the point at which everything is measured.

    Attributes:
        loss: the mean loss of the batch.
        gradient: its gradient, by parameter name.
        difference: the relative difference of two gradients of the same batch.
        half: names of modules that computed in half precision.
    """

    loss: float
    gradient: Named
    difference: float
    half: tuple[str, ...]


def check_repeatable(model: nn.Module, loss_fn: LossFn[B], batch: B) -> Repeatable:
    """Refuse a loss that is random or that changes the model when it is looked at.

    Active dropout and BatchNorm in training mode are refused by name. What remains is found by
    asking twice. Half precision is measured, with a warning that says how many digits are left.

    Args:
        model: as it will be measured.
        loss_fn: `loss_fn(model, batch)`, the mean loss as a scalar tensor.
        batch: a tensor, or a tuple, list or dict of tensors.

    Raises:
        ValueError: with what to do about it.
    """
    size(batch)
    refuse_meta(model)
    refuse_random_modules(model)
    params = trainable(model)
    with smooth():
        with watching_precision(model) as half:
            first = _point(model, loss_fn, batch, params)
        again = _point(model, loss_fn, batch, params)
    difference = _difference(first[1], again[1])
    # Atomic additions on a GPU change the last digits; a random loss changes the first ones.
    allowed = 1e-2 if half else 1e-4
    if not difference <= allowed:
        raise ValueError(
            "loss_fn must give the same gradient twice for the same batch, got a relative "
            f"difference of {difference:.1e}: take random augmentation, dropout written as a "
            "function and sampled labels out of it, or fix their seed inside loss_fn"
        )
    _refuse_a_sum(model, loss_fn, batch, first[0])
    if half:
        warnings.warn(
            f"{half[0]} computes in half precision: about 2 digits of curvature and noise are "
            "left. Measure with a loss_fn without autocast, on float32 parameters.",
            stacklevel=3,
        )
    return Repeatable(*first, difference, tuple(half))


def refuse_random_modules(model: nn.Module) -> None:
    """Say which modules make the loss random or depend on the whole batch."""
    for name, module in model.named_modules():
        if not module.training:
            continue
        if isinstance(module, _DROPOUT) and module.p > 0:
            raise ValueError(
                f"model must be repeatable, got active dropout in {name or 'the model'}: "
                "call model.eval() first, and model.train() afterwards"
            )
        if isinstance(module, _NORMS):
            raise ValueError(
                f"model must treat samples one by one, got {type(module).__name__} in training "
                f"mode in {name or 'the model'}: it mixes the batch and changes its running "
                "statistics. Call model.eval() first, and model.train() afterwards"
            )


def scalar_loss(model: nn.Module, loss_fn: LossFn[B], batch: B) -> torch.Tensor:
    """The loss, checked."""
    loss = called(loss_fn, model, batch)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        got = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        detached = isinstance(loss, torch.Tensor) and loss.numel() == 1
        raise ValueError(
            "loss_fn(model, batch) must return the mean loss as a scalar tensor that can be "
            f"differentiated, got {'one without a gradient' if detached else got}"
        )
    return loss.reshape(())


def _point(model: nn.Module, loss_fn: LossFn[B], batch: B, params: Named) -> tuple[float, Named]:
    loss = scalar_loss(model, loss_fn, batch)
    value = float(loss.detach())
    slopes = gradient(loss, params)
    finite = all(bool(torch.isfinite(g).all()) for g in slopes.values())
    if not (torch.isfinite(loss.detach()) and finite):
        raise ValueError(
            f"loss and gradient must be finite on the batch, got a loss of {value}"
            f"{'' if finite else ' and a gradient that is not'}"
        )
    return value, slopes


def _refuse_a_sum(model: nn.Module, loss_fn: LossFn[B], batch: B, once: float) -> None:
    """A mean is the same on a batch that is taken twice; a sum doubles, and so does all else."""
    with torch.no_grad():
        try:
            twice = float(loss_fn(model, mapped(lambda t: torch.cat([t, t]), batch)))
        except Exception:  # a model or a loss that is made for one size of batch
            return
    if once and abs(twice / once - 2) < DOUBLED:
        raise ValueError(
            "loss_fn must return the mean over the samples, got one that doubles on a batch taken "
            "twice, as with reduction='sum': sharpness and learning rates would be off by the size "
            f"of the batch, here {size(batch)}. Use reduction='mean', or divide by it"
        )


def _difference(first: Named, again: Named) -> float:
    off = norm2({name: g - again[name] for name, g in first.items()})
    norm = norm2(first)
    return 0.0 if off == 0 else float((off / norm) ** 0.5) if norm else float("inf")


@contextlib.contextmanager
def watching_precision(model: nn.Module) -> Iterator[list[str]]:
    """Which modules hand out half precision; autocast inside loss_fn shows nowhere else."""
    half: list[str] = []

    def watcher(name: str):
        def look(_module: nn.Module, _args: tuple[object, ...], output: object) -> None:
            if isinstance(output, torch.Tensor) and output.dtype in _HALF and name not in half:
                half.append(name)

        return look

    named = [(name or "the model", module) for name, module in model.named_modules()]
    handles = [module.register_forward_hook(watcher(name)) for name, module in named]
    try:
        yield half
    finally:
        for handle in handles:
            handle.remove()
