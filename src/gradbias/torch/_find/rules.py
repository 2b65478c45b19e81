"""What simple operations do to exponents: views, additions, products, activations, sums.

A rule is called as rule(walk, operation) with exponents in place of tensors, and returns those of
the result. An operation without a rule fixes everything it touches, so that what is
reported is true of what was understood.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from .ledger import ANY, EPSILON_WORD, ZERO, constant, has
from .operations import COMPARED, CURVED, HOMOGENEOUS, MADE, POWERS, SAME
from .walk import GraphWalk, Operation, Weight

Rule = Callable[[GraphWalk, Operation], object]
R = TypeVar("R", bound=Rule)
EPSILON = 1e-3  # a constant of at most this size only keeps from dividing by zero

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[R], R]:
    """Register a rule under the names of operations, without their overload."""

    def add(function: R) -> R:
        for name in names:
            RULES[name] = function
        return function

    return add


def tensors(walk: GraphWalk, values: object) -> list[Tensor]:
    """The exponents of all tensors among arguments, however nested."""
    if isinstance(values, (Tensor, Weight)):
        return [walk.ids(values)]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (tuple, list)):
        return [ids for value in values for ids in tensors(walk, value)]
    return []


def constants(shape: object, value: int = ZERO) -> object:
    """A result that does not scale, of one shape or of several."""
    if isinstance(shape, torch.Size):
        return constant(value, shape)
    return tuple(constants(part, value) for part in shape) if isinstance(shape, tuple) else shape


def with_rest(first: Tensor | Weight, op: Operation) -> object:
    """A result; of several the first, and none of the others scales."""
    if isinstance(op.shape, torch.Size):
        return first
    return (first, *(constants(shape) for shape in op.rest))


@rule(*CURVED)
def curved(walk: GraphWalk, op: Operation) -> object:
    """Nothing that is not homogeneous lets a scale through."""
    _stop(walk, op)
    return constants(op.shape)


def curved_tensor(walk: GraphWalk, op: Operation) -> Tensor:
    """The same where the result is one tensor."""
    _stop(walk, op)
    return constant(ZERO, op.size)


def _stop(walk: GraphWalk, op: Operation) -> None:
    for ids in tensors(walk, (op.args, op.kwargs)):
        walk.ledger.zero(ids)


@rule(*SAME)
def same(walk: GraphWalk, op: Operation) -> object:
    """The first argument; a parameter in another precision is still that parameter."""
    cast = [v for v in (*op.args, *op.kwargs.values()) if isinstance(v, torch.dtype)]
    walk.single |= any(d in (torch.float32, torch.float16, torch.bfloat16) for d in cast)
    return with_rest(op.args[0], op)


@rule("view", "_unsafe_view", "view_as", "reshape_as")
def viewed(walk: GraphWalk, op: Operation) -> Tensor:
    """Exponents lie otherwise in memory than what they belong to."""
    return walk.ids(op.args[0]).reshape(op.size)


@rule(*HOMOGENEOUS)
def homogeneous(walk: GraphWalk, op: Operation) -> Tensor:
    """Scales go through."""
    walk.ledger.mark(walk.ids(op.args[0]), op.word)
    return walk.ids(op.args[0])


@rule("prelu")
def prelu(walk: GraphWalk, op: Operation) -> Tensor:
    """The learned slope does not scale."""
    walk.ledger.zero(walk.ids(op.args[1]))
    return homogeneous(walk, op)


@rule(*MADE)
def made(walk: GraphWalk, op: Operation) -> object:
    """New tensors have no scale, whatever they are shaped like."""
    return constants(op.shape)


@rule("zeros", "zeros_like", "new_zeros")
def zeros(walk: GraphWalk, op: Operation) -> object:
    """Zero times anything is zero."""
    return constants(op.shape, ZERO if walk.mutates else ANY)


@rule(*COMPARED)
def compared(walk: GraphWalk, op: Operation) -> object:
    """A comparison with 0 sees no scale; any other does."""
    if len(op.args) > 1 and not _is_number(op.args[1], 0):
        return curved(walk, op)
    return constants(op.shape)


@rule("add", "sub", "rsub", "maximum", "minimum", "where", "__or__", "__and__", "logical_and")
def merged(walk: GraphWalk, op: Operation) -> Tensor:
    """Summands have one scale. A tiny constant only keeps from dividing by zero."""
    terms = tensors(walk, (op.args, op.kwargs))
    numbers = [abs(v) for v in op.args[:2] if isinstance(v, (int, float)) and v != 0]
    first = terms[0].expand(op.size)
    if op.word == "where":  # the condition has no scale
        terms = terms[1:]
        walk.ledger.mark(first := terms[0].expand(op.size), "where")
    for ids in terms[1:]:
        walk.ledger.merge(first, ids)
        first = torch.where(first == ANY, ids, first) if has(first, ANY) else first
    if numbers and max(numbers) > EPSILON:
        walk.ledger.zero(first)
    elif numbers:
        walk.ledger.mark(first, EPSILON_WORD)
    return first


@rule("mul", "div", "divide", "multiply")
def product(walk: GraphWalk, op: Operation) -> Tensor:
    """Scales multiply."""
    power = -1.0 if op.word.startswith("div") else 1.0
    if op.kwargs.get("rounding_mode"):
        return curved_tensor(walk, op)
    signs = zip(op.args[:2], (1.0, power), strict=False)
    terms = [(walk.ids(v), s) for v, s in signs if isinstance(v, (Tensor, Weight))]
    return walk.ledger.combined(terms).expand(op.size)


@rule("pow", *POWERS)
def power(walk: GraphWalk, op: Operation) -> Tensor:
    """A power multiplies the exponent."""
    base = op.argument(0)
    degree = POWERS.get(op.word, op.argument(1))
    if not isinstance(degree, (int, float)) or not isinstance(base, (Tensor, Weight)):
        return curved_tensor(walk, op)
    walk.ledger.mark(walk.ids(base), op.word)
    return walk.ledger.combined([(walk.ids(base), float(degree))])


@rule("clamp", "clamp_min", "clamp_max")
def clamped(walk: GraphWalk, op: Operation) -> Tensor:
    """Cutting at 0 is homogeneous, at a tiny number nearly so, elsewhere not."""
    limits = [*op.args[1:], op.kwargs.get("min"), op.kwargs.get("max")]
    given = [v for v in limits if v is not None]
    if not all(isinstance(v, (int, float)) and abs(v) <= EPSILON for v in given):
        return curved_tensor(walk, op)
    if any(v != 0 for v in given):
        walk.ledger.mark(walk.ids(op.args[0]), EPSILON_WORD)
    return homogeneous(walk, op)


@rule("masked_fill")
def masked_fill(walk: GraphWalk, op: Operation) -> Tensor:
    """Filling with 0 is like any other mask."""
    ids = walk.ids(op.args[0]).expand(op.size)
    if not _is_number(op.args[2], 0):
        walk.ledger.zero(ids)
    return ids


@rule("sum", "mean", "amax", "amin", "max", "min", "norm", "linalg_vector_norm", "cumsum", "std")
def reduced(walk: GraphWalk, op: Operation) -> object:
    """What is summed has one scale."""
    return with_rest(_reduced(walk, op), op)


def _reduced(walk: GraphWalk, op: Operation) -> Tensor:
    if isinstance(op.argument(1), (Tensor, Weight)):
        return merged(walk, op)  # max and min of two tensors
    word = op.word
    ids = walk.ids(op.args[0])
    dims = op.argument(2, op.kwargs.get("dim")) if "norm" in word else op.kwargs.get("dim")
    if dims is None and "norm" not in word:
        dims = op.argument(1)
    dims = [dims] if isinstance(dims, int) else list(dims or range(ids.ndim))
    kept = walk.ledger.along(ids, dims, keep=True)
    if word not in ("sum", "mean", "cumsum"):
        walk.ledger.mark(kept, word)
    return _fit(kept, dims, op.size)


@rule("var")
def variance(walk: GraphWalk, op: Operation) -> Tensor:
    """A variance is of degree two."""
    return walk.ledger.combined([(_reduced(walk, op), 2.0)])


def _fit(kept: Tensor, dims: list[int], shape: torch.Size) -> Tensor:
    """One entry along the reduced axes, in the shape that the result has."""
    if len(shape) == kept.ndim:
        return kept.expand(shape)
    return kept.squeeze([d % kept.ndim for d in dims]).expand(shape)


@rule("index", "index_select", "gather", "take_along_dim")
def indexed(walk: GraphWalk, op: Operation) -> Tensor:
    """Which entries are taken is not known: all that could be have one scale."""
    ids = walk.ids(op.args[0])
    if op.word == "index":
        dims = [d for d, index in enumerate(op.args[1]) if index is not None]
        if dims == list(range(len(dims))):
            return walk.ledger.along(ids, dims).expand(op.size)
        return walk.ledger.along(ids, range(ids.ndim)).expand(op.size)
    return walk.ledger.along(ids, [op.args[1]], keep=True).expand(op.size)


@rule("view_as_complex")
def as_complex(walk: GraphWalk, op: Operation) -> Tensor:
    """The two parts of a number have one scale."""
    return walk.ledger.along(walk.ids(op.args[0]), [-1])


@rule("view_as_real")
def as_real(walk: GraphWalk, op: Operation) -> Tensor:
    """Both parts get the number's scale."""
    return walk.ids(op.args[0]).unsqueeze(-1).expand(op.size)


@rule("pad", "constant_pad_nd")
def padded(walk: GraphWalk, op: Operation) -> Tensor:
    """Zeros fit everything; mirrored entries bring their own scale."""
    mode = op.argument(2)
    mode = mode if isinstance(mode, str) else "constant"
    *_, value = op.args[2:] or (0.0,)
    value = value if isinstance(value, (int, float)) else 0.0
    ids = walk.ids(op.args[0]).double()
    fill = {"value": float(ANY if value == 0 else ZERO)} if mode == "constant" else {}
    return torch.nn.functional.pad(ids, op.args[1], mode=mode, **fill).long()


def moved(target: Callable[..., object], walk: GraphWalk, op: Operation) -> object:
    """An operation that only moves entries."""

    def exponents(value: object) -> object:
        if isinstance(value, (list, tuple)):
            return type(value)(exponents(v) for v in value)
        return walk.ids(value) if isinstance(value, (Tensor, Weight)) else value

    return target(*(exponents(value) for value in op.args), **op.kwargs)


def _is_number(value: object, number: float) -> bool:
    return isinstance(value, (int, float)) and value == number
