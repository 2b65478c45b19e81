"""The state in which a model is measured, and what must be as it was afterwards."""

import contextlib
import warnings
from collections.abc import Iterator

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

Named = dict[str, torch.Tensor]
AUTOCAST = ("cpu", "cuda", "xpu")  # devices on which it can be on


def trainable(model: torch.nn.Module) -> Named:
    """The parameters that are trained, by name."""
    params: Named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not params:
        raise ValueError("model must have parameters that require a gradient, got none")
    return params


@contextlib.contextmanager
def autocast_off() -> Iterator[None]:
    """The user's autocast, if it is on around a call, has no part in it.

    What `loss_fn` or the model switch on themselves stays: it is how they compute.
    """
    with contextlib.ExitStack() as stack:
        for device in AUTOCAST:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@contextlib.contextmanager
def smooth() -> Iterator[None]:
    """Gradients on, autocast off, and attention by the kernel that can be differentiated twice.

    The fused attention kernels have no second derivative and no rule for vmap.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(autocast_off())
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=".*performance drop.*", category=UserWarning)
        yield


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode for a measurement in the middle of training.

    Dropout is off and BatchNorm uses, and does not change, its running statistics. Modes, random
    states and gradients are as they were when the measurement has ended, also when it failed.
    """
    modes = [(module, module.training) for module in model.modules()]
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        try:
            for module, _ in modes:
                module.training = False
            yield
        finally:
            for module, training in modes:
                module.training = training


def gradient(loss: torch.Tensor, params: Named, *, create_graph: bool = False) -> Named:
    """The gradient by name; zero where the loss does not depend on a parameter.

    `.grad` is neither read nor written: it belongs to the training loop.
    """
    slopes = torch.autograd.grad(
        loss, list(params.values()), create_graph=create_graph, allow_unused=True
    )
    return {
        name: torch.zeros_like(p) if g is None else g
        for (name, p), g in zip(params.items(), slopes, strict=True)
    }


def precise(value: torch.Tensor) -> torch.Tensor:
    """In float64, or float32 where the device has no float64."""
    return value.float() if value.device.type == "mps" else value.double()


def norm2(values: Named) -> float:
    """The squared norm of all of them together."""
    return sum(float(precise(v).square().sum()) for v in values.values())
