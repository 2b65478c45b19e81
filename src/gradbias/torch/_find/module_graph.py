"""Where a model has no graph: its modules one by one, joined where tensors are the same."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._measure.batches import leaves
from .export_graph import exported, first_line, follow
from .ledger import ZERO, constant
from .parameters import Call
from .results import results
from .walk import GraphWalk


class _Calls:
    """The calls of a model's children, in order, with what went in and came out."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.calls: list[tuple[str, nn.Module, Call, object]] = []

    def run(self, call: Call) -> object:
        handles = [
            child.register_forward_hook(self._hook(name), with_kwargs=True)
            for name, child in _called(self.model)
        ]
        try:
            with torch.enable_grad():
                return self.model(*call[0], **call[1])
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str) -> Callable[..., None]:
        def hook(
            module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: object
        ) -> None:
            self.calls.append((name, module, (args, kwargs), output))

        return hook


def _called(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The modules inside; those of a list or dict of modules, which itself is never called."""
    for name, child in model.named_children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from _called(child, f"{prefix}{name}.")
        else:
            yield prefix + name, child


class _Ends:
    """Exponents of the tensors that were seen, and which of them nobody has read yet."""

    def __init__(self) -> None:
        self.known: dict[int, Tensor] = {}
        self.unread: dict[int, Tensor] = {}

    def read(self, value: Tensor) -> Tensor:
        self.unread.pop(id(value), None)
        return self.known.get(id(value), constant(ZERO, value.shape))

    def written(self, value: Tensor, ids: Tensor) -> None:
        if ids.shape == value.shape:
            self.known[id(value)] = self.unread[id(value)] = ids


def follow_modules(
    walk: GraphWalk,
    model: nn.Module,
    call: Call,
    prefix: str = "",
    given: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """Follow a model's graph, or those of its children where it has none itself.

    What happens between children is not seen. A tensor that no child reads is taken to be used
    elsewhere, and does not scale; the numerical check finds what this misses.

    Args:
        walk: what is known so far.
        model: what to follow.
        call: its arguments.
        prefix: of its parameters' names.
        given: exponents of the arguments; none of them scales if None.
    """
    try:
        program = exported(model, call)
    except Exception as error:  # torch.export raises many kinds
        walk.unknown.setdefault(f"the graph of {_name(model, prefix)}: {first_line(error)}")
    else:
        return follow(walk, program, prefix, given)
    run = _Calls(model)
    ends = _Ends()
    output = run.run(call)
    if not run.calls:  # nothing inside to look at: its arguments do not scale
        for ids in given or []:
            walk.ledger.zero(ids)
        return [constant(ZERO, value.shape) for value in results(output)]
    for value, ids in zip(leaves(call), given or [], strict=False):
        ends.written(value, ids)
    for name, child, arguments, result in run.calls:
        into = [ends.read(value) for value in leaves(arguments)]
        outs = follow_modules(walk, child, arguments, f"{prefix}{name}.", into)
        for value, ids in zip(results(result), outs, strict=False):
            ends.written(value, ids)
    outer = [ends.read(value) for value in results(output)]  # whoever called looks after them
    for ids in ends.unread.values():
        walk.ledger.zero(ids)
    return outer


def _name(model: nn.Module, prefix: str) -> str:
    return prefix.rstrip(".") or type(model).__name__
