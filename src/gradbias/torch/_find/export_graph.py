"""Following a model: its exported graph, or the order of its modules where it has none."""

import contextlib
import io
import logging
import operator
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
import torch.export
from torch import Tensor, nn
from torch.fx.node import map_arg

from . import rules_einsum, rules_norms  # noqa: F401  (they and the layers register rules)
from .operations import MOVES
from .rules import RULES, Rule, constants, curved, moved, tensors
from .walk import Walk

SAFE = ("relu_", "leaky_relu_", "dropout_", "tanh_", "sigmoid_", "silu_", "gelu_", "clamp_min_")


Call = tuple[tuple[Any, ...], dict[str, Any]]  # arguments, and named ones


def follow(walk: Walk, program: Any, prefix: str = "", given: Any = None) -> list[Tensor]:
    """Apply the rules to an exported graph.

    Args:
        walk: what is known so far.
        program: what `exported` gave.
        prefix: of its parameters' names.
        given: exponents of the arguments; none of them scales if None.

    Returns:
        The exponents of its outputs.
    """
    values = _placeholders(walk, program, prefix, given)
    # A tensor of zeros that is written to later is not one that fits everything.
    walk.mutates = any(_word(n).endswith("_") and _word(n) not in SAFE for n in program.graph.nodes)
    for node in program.graph.nodes:
        if node.op == "call_function":
            walk.place = prefix + _module_of(node)
            values[node] = _apply(walk, node, values)
        elif node.op == "get_attr":
            values[node] = constants(_shape(node))
        elif node.op == "output":
            return tensors(walk, map_arg(node.args, values.__getitem__))
    return []


def exported(module: nn.Module, call: Call) -> Any:
    """The graph of a module; raises whatever torch raises where there is none."""
    # Attention has a fused path for inference that hides its parts; gradients rule it out.
    with torch.enable_grad(), warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        return torch.export.export(module, call[0], call[1], strict=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Where a graph cannot be had, torch prints what it has of it; we go on without."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _placeholders(walk: Walk, program: Any, prefix: str, given: Any) -> dict[Any, Any]:
    signature = program.graph_signature
    names = dict(signature.inputs_to_parameters)
    own = {spec.arg.name for spec in signature.input_specs if spec.kind.name == "USER_INPUT"}
    queue = [] if given is None else list(given)
    values = {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        shape = _shape(node)
        if node.name in names:
            values[node] = walk.parameter(prefix + names[node.name], tuple(shape))
        elif node.name in own and queue:
            values[node] = queue.pop(0)
        else:
            values[node] = constants(shape)
    return values


def _shape(node: Any) -> Any:
    return _shapes(node.meta.get("val"))


def _shapes(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.Size(int(n) for n in value.shape)
    if isinstance(value, (tuple, list)):
        return tuple(_shapes(v) for v in value)
    return value


def _word(node: Any) -> str:
    name = str(node.target)  # aten.linear.default, or a Python function
    if name.startswith("aten."):
        return name.split(".")[1]
    return getattr(node.target, "__name__", name)


def _module_of(node: Any) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return str(list(stack.values())[-1][0]) if stack else ""


def _apply(walk: Walk, node: Any, values: Mapping[Any, Any]) -> Any:
    args = map_arg(node.args, values.__getitem__)
    kwargs = dict(map_arg(node.kwargs, values.__getitem__))
    shape, word = _shape(node), _word(node)
    if node.target is operator.getitem:
        return args[0][args[1]]
    if not tensors_in(args, kwargs) and not isinstance(shape, (torch.Size, tuple)):
        return shape
    if word in MOVES:
        return _ruled(walk, word, partial(moved, node.target), args, kwargs, shape)
    in_place = word.endswith("_") and not word.endswith("__")
    word = word[:-1] if in_place else word
    if word not in RULES:
        if any(bool((ids > 0).any()) for ids in tensors(walk, (args, kwargs))):
            walk.unknown.setdefault(f"{word} in {walk.place or 'the model'}")
        return curved(walk, args, kwargs, shape)
    result = _ruled(walk, word, RULES[word], args, kwargs, shape)
    if in_place:  # other names of this tensor see the change: it must not scale differently
        walk.ledger.merge(walk.ids(args[0]), result)
    return result


def _ruled(walk: Walk, word: str, rule: Rule, args: Any, kwargs: Any, shape: Any) -> Any:
    """What a rule says; one that cannot read its arguments is as good as none."""
    count = walk.ledger.count
    try:
        return rule(walk, args, kwargs | {"word": word}, shape)
    except Exception as error:  # arguments in a form that the rule does not expect
        walk.unknown.setdefault(f"{word} in {walk.place or 'the model'}: {first_line(error)}")
        walk.ledger.zero(torch.arange(count, walk.ledger.count))
        return curved(walk, args, kwargs, shape)


def first_line(error: Exception) -> str:
    """What went wrong, in one line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else ''}"[:120]


def tensors_in(args: Any, kwargs: Any) -> bool:
    """Is there a tensor among the arguments?"""
    found: list[Any] = [*args, *kwargs.values()]
    flat = [v for value in found for v in (value if isinstance(value, (list, tuple)) else [value])]
    return any(hasattr(v, "shape") for v in flat)
