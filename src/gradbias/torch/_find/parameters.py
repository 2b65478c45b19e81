"""A model's parameters: which cannot be moved and why; copies of it to measure on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .._measure.batches import B, leaves, mapped
from .._measure.duplicate import duplicate

Call = tuple[tuple[Any, ...], dict[str, Any]]  # a model's arguments, and named ones


class Inventory(NamedTuple):
    """Parameters that no symmetry may move, by name.

    Attributes:
        tied: of one tensor under several names.
        frozen: that need no gradient.
        parametrised: computed from others.
    """

    tied: tuple[str, ...]
    frozen: tuple[str, ...]
    parametrised: tuple[str, ...]

    @property
    def fixed(self) -> set[str]:
        """All of them."""
        return {*self.tied, *self.frozen, *self.parametrised}


def inventory(model: nn.Module) -> Inventory:
    """What cannot be moved."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    tied = [name for group in names.values() if len(group) > 1 for name in group]
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    return Inventory(tuple(tied), tuple(frozen), tuple(_parametrised(model)))


def _parametrised(model: nn.Module) -> list[str]:
    names = [n for n, _ in model.named_parameters(remove_duplicate=False)]
    computed = [n for n in names if ".parametrizations." in f".{n}"]
    # The older weight_norm and spectral_norm leave a tensor where the parameter was.
    for prefix, module in model.named_modules():
        for hook in module._forward_pre_hooks.values():
            attribute = getattr(hook, "name", None)
            if isinstance(attribute, str) and not isinstance(
                getattr(module, attribute, None), nn.Parameter
            ):
                start = f"{prefix}.{attribute}_" if prefix else f"{attribute}_"
                computed += [n for n in names if n.startswith(start)]
    return list(dict.fromkeys(computed))


def call_arguments(example_input: object) -> Call:
    """How the model is called: with a tensor, a tuple of arguments or a dict of named ones."""
    if isinstance(example_input, Mapping):
        return (), dict(example_input)
    if isinstance(example_input, (tuple, list)):
        return tuple(example_input), {}
    return (example_input,), {}


def double(model: nn.Module, values: B) -> tuple[nn.Module, B]:
    """A copy in float64 with its arguments; in the model's own precision where there is none."""
    twin = duplicate(model)
    twin.zero_grad(set_to_none=True)
    if any(t.device.type == "mps" for t in [*twin.parameters(), *leaves(values)]):
        return twin, values
    return twin.double(), doubled(values)


class DoubleByDefault(TorchFunctionMode):
    """A context in which new tensors are float64, as masks and tables of the copy must be.

    Only in this thread: torch's own default dtype is that of the whole process.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor) or result.dtype != torch.get_default_dtype():
            return result
        given = [v for v in (*args, *kwargs.values()) if v is not None]
        # A dtype that the model names, or takes from data, is the model's own choice.
        if func in CASTS or any(isinstance(v, torch.dtype) or _floating(v) for v in given):
            return result
        if func in FACTORIES:
            return func(*args, **kwargs | {"dtype": torch.float64})
        if func in ARITHMETIC:  # of whole numbers: the quotient of an arange, for one
            args = tuple(v.double() if isinstance(v, Tensor) else v for v in args)
            return func(*args, **kwargs)
        return result.double()


FACTORIES = {
    *(torch.empty, torch.zeros, torch.ones, torch.full, torch.eye, torch.scalar_tensor),
    *(torch.arange, torch.linspace, torch.logspace, torch.rand, torch.randn),
    *(torch.tensor, torch.as_tensor, torch.asarray),
}
CASTS = {Tensor.float, Tensor.to, Tensor.type, Tensor.type_as, Tensor.view, Tensor.detach}
ARITHMETIC = {
    *(torch.div, torch.true_divide, torch.mul, torch.pow, torch.sqrt, torch.exp, torch.log),
    *(torch.sin, torch.cos, torch.rsqrt, Tensor.div, Tensor.true_divide, Tensor.mul, Tensor.pow),
    *(Tensor.sqrt, Tensor.exp, Tensor.log, Tensor.sin, Tensor.cos, Tensor.rsqrt),
    *(Tensor.__truediv__, Tensor.__rtruediv__, Tensor.__mul__, Tensor.__rmul__),
    *(Tensor.__pow__, Tensor.__rpow__),
}


def _floating(value: object) -> bool:
    """Does it bring a floating dtype of its own: a tensor, an array, or a list of them?"""
    if isinstance(value, (tuple, list)):
        return any(_floating(v) for v in value)
    if isinstance(value, Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fc"


def doubled(values: B) -> B:
    """Floating tensors in float64, however nested."""
    return mapped(lambda t: t.double() if t.is_floating_point() else t, values)


def as_in_training(model: nn.Module) -> nn.Module:
    """Normalisation by the batch's own statistics, and nothing random."""
    for module in model.modules():
        module.training = hasattr(module, "running_mean")
    return model
