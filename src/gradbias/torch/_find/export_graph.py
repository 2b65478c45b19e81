"""Following a model: its exported graph, or the order of its modules where it has none."""

import contextlib
import functools
import logging
import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.export
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from .._measure.unwrap import made_where
from . import rules_einsum, rules_norms, rules_recurrent  # noqa: F401  (they and the layers register rules)
from .ledger import slices
from .operations import MOVES
from .parameters import Call
from .results import results
from .rules import RULES, Rule, constants, curved, moved, tensors
from .walk import GraphWalk, Operation, Weight

SAFE = ("relu_", "leaky_relu_", "dropout_", "tanh_", "sigmoid_", "silu_", "gelu_", "clamp_min_")
LOGGERS = ("torch.export", "torch._export", "torch.fx", "torch._functorch", "torch._subclasses")


def follow(
    walk: GraphWalk,
    program: ExportedProgram,
    prefix: str = "",
    given: Sequence[Tensor] | None = None,
) -> list[Tensor]:
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
    module = program.graph_module
    nodes = [n for m in module.modules() if isinstance(m, GraphModule) for n in m.graph.nodes]
    # A tensor of zeros that is written to later is not one that fits everything.
    walk.mutates = any(_word(n).endswith("_") and _word(n) not in SAFE for n in nodes)
    return tensors(walk, _followed(walk, module, prefix, values))


def _followed(walk: GraphWalk, module: GraphModule, prefix: str, values: dict[Node, Any]) -> object:
    """What a graph gives, from what its placeholders hold."""
    for node in module.graph.nodes:
        if node.op == "call_function":
            walk.place = prefix + _module_of(node)
            inner = _wrapped(module, node)
            if inner is None:
                values[node] = _apply(walk, node, values)
            else:
                graph, given = inner
                holders = [n for n in graph.graph.nodes if n.op == "placeholder"]
                held = (map_arg(value, values.__getitem__) for value in given)
                bound: dict[Node, Any] = dict(zip(holders, held, strict=True))
                values[node] = _followed(walk, graph, prefix, bound)
        elif node.op == "get_attr":
            values[node] = constants(_shape(node))
        elif node.op == "output":
            return map_arg(node.args[0], values.__getitem__)
    return []


def _wrapped(module: GraphModule, node: Node) -> tuple[GraphModule, tuple[Any, ...]] | None:
    """The part of a graph that runs under autocast or without gradients, and its arguments.

    Precision does not matter to exponents.
    """
    if not _word(node).startswith("wrap_with_"):
        return None
    for i, argument in enumerate(node.args):
        if isinstance(argument, Node) and argument.op == "get_attr":
            inner = module.get_submodule(str(argument.target))
            if isinstance(inner, GraphModule):
                return inner, node.args[i + 1 :]
    return None


def exported(module: nn.Module, call: Call) -> ExportedProgram:
    """The graph of a module of ours (not the user's); raises what torch raises where none is."""
    # Attention has a fused path for inference that hides its parts; gradients rule it out.
    with torch.enable_grad(), warnings.catch_warnings(), _quiet_loggers():
        warnings.simplefilter("ignore")
        try:
            with _plain_results(module), made_where(module):
                program = torch.export.export(module, call[0], call[1], strict=False)
        except _ForwardFailed as failure:
            raise failure.error from None
    for node in program.graph.nodes:
        _shape(node)  # raises where a size depends on the data
    return program


@contextlib.contextmanager
def _quiet_loggers() -> Iterator[None]:
    """Torch's loggers of graphs are silent: where there is no graph, we go on without."""
    loggers = [
        logging.getLogger(name)
        for name in (*LOGGERS, *logging.root.manager.loggerDict)
        if name.startswith(LOGGERS)
    ]
    levels = {logger: logger.level for logger in loggers}
    try:
        for logger in levels:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


class _ForwardFailed(Exception):
    """Carries an error of `forward` through torch.export."""

    def __init__(self, error: RuntimeError):
        super().__init__(str(error))
        self.error = error


@contextlib.contextmanager
def _plain_results(module: nn.Module) -> Iterator[None]:
    """Tensors alone as results, and errors of `forward` in another class.

    Torch cannot export objects, such as caches, and prints half a graph for RuntimeErrors.

    Redirecting stderr would take it from the user's other threads too.
    """
    forward = module.forward
    replaced = module.__dict__.get("forward")

    @functools.wraps(forward)
    def raising(*args: object, **kwargs: object) -> list[Tensor]:
        try:
            return results(forward(*args, **kwargs))
        except RuntimeError as error:
            raise _ForwardFailed(error) from error

    module.forward = raising
    try:
        yield
    finally:
        if replaced is None:
            del module.forward
        else:
            module.forward = replaced


def _placeholders(
    walk: GraphWalk, program: ExportedProgram, prefix: str, given: Sequence[Tensor] | None
) -> dict[Node, Any]:
    signature = program.graph_signature
    names = dict(signature.inputs_to_parameters)
    inputs = {spec.arg.name for spec in signature.input_specs if spec.kind.name == "USER_INPUT"}
    queue = list(given or ())
    values: dict[Node, Any] = {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        shape = _shape(node)
        if node.name in names and isinstance(shape, torch.Size):
            values[node] = walk.parameter(prefix + names[node.name], tuple(shape))
        elif node.name in inputs and queue and isinstance(shape, torch.Size):
            values[node] = queue.pop(0)
        else:
            values[node] = constants(shape)
    return values


def _shape(node: Node) -> object:
    return _shapes(node.meta.get("val"))


def _shapes(value: object) -> object:
    if isinstance(value, Tensor):
        return torch.Size(int(n) for n in value.shape)
    if isinstance(value, (tuple, list)):
        return tuple(_shapes(v) for v in value)
    return value


def _word(node: Node) -> str:
    name = str(node.target)  # aten.linear.default, or a Python function
    if name.startswith("aten."):
        return name.split(".")[1]
    return getattr(node.target, "__name__", name)


def _module_of(node: Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return str(list(stack.values())[-1][0]) if stack else ""


def _apply(walk: GraphWalk, node: Node, values: Mapping[Node, Any]) -> object:
    args = map_arg(node.args, values.__getitem__)
    kwargs = dict(map_arg(node.kwargs, values.__getitem__))
    word = _word(node)
    in_place = word.endswith("_") and not word.endswith("__")
    op = Operation(word[:-1] if in_place else word, args, kwargs, _shape(node))
    if node.target is operator.getitem:
        return op.args[0][op.args[1]]
    if not tensors_in(op) and not isinstance(op.shape, tuple):
        return op.shape
    if word in MOVES and callable(node.target):
        return _ruled(walk, functools.partial(moved, node.target), op)
    if op.word not in RULES:
        if any(bool((slices(ids)[0] > 0).any()) for ids in tensors(walk, (args, kwargs))):
            walk.unknown.setdefault(f"{op.word} in {walk.place or 'the model'}")
        return curved(walk, op)
    result = _ruled(walk, RULES[op.word], op)
    if in_place and isinstance(result, (Tensor, Weight)):
        # Other names of this tensor see the change: it must not scale differently.
        walk.ledger.merge(walk.ids(op.args[0]), walk.ids(result))
    return result


def _ruled(walk: GraphWalk, rule: Rule, op: Operation) -> object:
    """What a rule says; one that cannot read its arguments is as good as none."""
    count = walk.ledger.count
    try:
        return rule(walk, op)
    except Exception as error:  # arguments in a form that the rule does not expect
        walk.unknown.setdefault(f"{op.word} in {walk.place or 'the model'}: {first_line(error)}")
        walk.ledger.zero(torch.arange(count, walk.ledger.count))
        return curved(walk, op)


def first_line(error: Exception) -> str:
    """What went wrong, in one line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else ''}"[:120]


def tensors_in(op: Operation) -> bool:
    """Is there a tensor among the arguments?"""
    values: list[Any] = [*op.args, *op.kwargs.values()]
    flat = [v for value in values for v in (value if isinstance(value, (list, tuple)) else [value])]
    return any(hasattr(v, "shape") for v in flat)
