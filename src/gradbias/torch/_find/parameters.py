"""A model's parameters: which cannot be moved and why; copies of it to measure on."""

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._measure.batches import leaves, mapped


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
    found = [n for n in names if ".parametrizations." in f".{n}"]
    # The older weight_norm and spectral_norm leave a tensor where the parameter was.
    for prefix, module in model.named_modules():
        for hook in module._forward_pre_hooks.values():
            attribute = getattr(hook, "name", None)
            if isinstance(attribute, str) and not isinstance(
                getattr(module, attribute, None), nn.Parameter
            ):
                start = f"{prefix}.{attribute}_" if prefix else f"{attribute}_"
                found += [n for n in names if n.startswith(start)]
    return list(dict.fromkeys(found))


def call_arguments(example_input: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How the model is called: with a tensor, a tuple of arguments or a dict of named ones."""
    if isinstance(example_input, Mapping):
        return (), dict(example_input)
    if isinstance(example_input, (tuple, list)):
        return tuple(example_input), {}
    return (example_input,), {}


def outputs(result: Any) -> list[Tensor]:
    """The floating tensors of a model's result, however nested."""
    return [t for t in leaves(result) if t.is_floating_point()]


def double(model: nn.Module, values: Any) -> tuple[nn.Module, Any]:
    """A copy in float64 with its arguments; in the model's own precision where there is none."""
    twin = copy.deepcopy(model)
    twin.zero_grad(set_to_none=True)
    if any(t.device.type == "mps" for t in [*twin.parameters(), *leaves(values)]):
        return twin, values
    return twin.double(), doubled(values)


@contextlib.contextmanager
def in_double() -> Iterator[None]:
    """New tensors are float64: masks and tables that a model makes on its way must fit the copy."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def doubled(values: Any) -> Any:
    """Floating tensors in float64, however nested."""
    return mapped(lambda t: t.double() if t.is_floating_point() else t, values)


def as_in_training(model: nn.Module) -> nn.Module:
    """Normalisation by the batch's own statistics, and nothing random."""
    for module in model.modules():
        module.training = hasattr(module, "running_mean")
    return model
