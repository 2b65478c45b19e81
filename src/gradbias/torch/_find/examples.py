"""What a model is called with: seen in its loss, or guessed from its first layer."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .._measure.batches import B, LossFn, called, on_device
from .._measure.undisturbed import undisturbed
from .parameters import Call

SIDES = (32, 28, 64, 16, 8, 224)  # of images, tried in turn


class _Captured(Exception):
    """Ends a call of the loss once the model's arguments are known."""


def captured(model: nn.Module, loss_fn: LossFn[B], batch: B) -> Call:
    """The arguments that the loss calls the model with, and the named ones."""
    calls: list[Call] = []

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((args, kwargs))
        raise _Captured

    handle = model.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        called(loss_fn, model, on_device(batch, model))
    except _Captured:
        return calls[0]
    finally:
        handle.remove()
    raise ValueError("loss_fn(model, batch) must call the model, got one that never does")


def example(model: nn.Module) -> Call:
    """Arguments that the model accepts, made from the sizes of its first layer."""
    first = next(
        (m for m in model.modules() if any(True for _ in m.parameters(recurse=False))), None
    )
    for guess in _guesses(first):
        args = on_device((guess.to(_dtype(model)) if guess.is_floating_point() else guess,), model)
        with undisturbed(model), torch.no_grad():
            try:
                model(*args)
            except Exception:  # whatever a model raises for a shape that it does not take
                continue
        return args, {}
    raise ValueError(
        f"example_input must be given: what {type(model).__name__} is called with cannot be "
        f"guessed from its first layer, {type(first).__name__}"
    )


def _dtype(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def _guesses(first: nn.Module | None) -> Iterator[Tensor]:
    draw = torch.Generator().manual_seed(0)
    if isinstance(first, nn.Linear):
        for middle in ((), (5,)):
            yield torch.randn((2, *middle, first.in_features), generator=draw)
    elif isinstance(first, nn.Embedding):
        yield torch.randint(0, first.num_embeddings, (2, 8), generator=draw)
    elif isinstance(first, nn.LayerNorm):
        yield torch.randn((2, 5, *first.normalized_shape), generator=draw)
    elif isinstance(first, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        for side in SIDES:
            shape = (2, first.in_channels, *(side,) * len(first.kernel_size))
            yield torch.randn(shape, generator=draw)
