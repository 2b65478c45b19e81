"""What simple operations do to exponents: views, additions, products, activations, sums.

A rule is called as rule(walk, args, kwargs, shape) with exponents in place of tensors, and returns
those of the result. An operation without a rule fixes everything it touches, so that what is
reported is true of what was understood.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .ledger import ANY, EPSILON_WORD, ZERO, constant
from .operations import COMPARED, CURVED, HOMOGENEOUS, MADE, POWERS, SAME
from .walk import Walk, Weight

Rule = Callable[[Walk, tuple[Any, ...], dict[str, Any], Any], Any]
EPSILON = 1e-3  # a constant of at most this size only keeps from dividing by zero

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule under the names of operations, without their overload."""

    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return add


def tensors(walk: Walk, values: Any) -> list[Tensor]:
    """The exponents of all tensors among arguments, however nested."""
    if isinstance(values, (Tensor, Weight)):
        return [walk.ids(values)]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (tuple, list)):
        return [ids for value in values for ids in tensors(walk, value)]
    return []


def constants(shape: Any, value: int = ZERO) -> Any:
    """A result that does not scale, of one shape or of several."""
    if isinstance(shape, torch.Size):
        return constant(value, shape)
    return tuple(constants(part, value) for part in shape) if isinstance(shape, tuple) else shape


@rule(*CURVED)
def curved(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """Nothing that is not homogeneous lets a scale through."""
    for ids in tensors(walk, (args, kwargs)):
        walk.ledger.zero(ids)
    return constants(shape)


@rule(*SAME)
def same(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """The first argument; a parameter in another precision is still that parameter."""
    cast = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.dtype)]
    walk.single |= any(d in (torch.float32, torch.float16, torch.bfloat16) for d in cast)
    if isinstance(shape, torch.Size):
        return args[0]
    return (args[0], *(constants(s) for s in shape[1:]))


@rule("view", "_unsafe_view", "view_as", "reshape_as")
def viewed(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Exponents lie otherwise in memory than what they belong to."""
    return walk.ids(args[0]).reshape(shape)


@rule(*HOMOGENEOUS)
def homogeneous(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Scales go through."""
    walk.ledger.mark(walk.ids(args[0]), kwargs["word"])
    return walk.ids(args[0])


@rule("prelu")
def prelu(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """The learned slope does not scale."""
    walk.ledger.zero(walk.ids(args[1]))
    return homogeneous(walk, args, kwargs, shape)


@rule(*MADE)
def made(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """New tensors have no scale, whatever they are shaped like."""
    return constants(shape)


@rule("zeros", "zeros_like", "new_zeros")
def zeros(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """Zero times anything is zero."""
    return constants(shape, ZERO if walk.mutates else ANY)


@rule(*COMPARED)
def compared(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """A comparison with 0 sees no scale; any other does."""
    if len(args) > 1 and not _is_number(args[1], 0):
        return curved(walk, args, kwargs, shape)
    return constants(shape)


@rule("add", "sub", "rsub", "maximum", "minimum", "where", "__or__", "__and__", "logical_and")
def merged(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Summands have one scale. A tiny constant only keeps from dividing by zero."""
    found = tensors(walk, (args, kwargs))
    numbers = [abs(v) for v in args[:2] if isinstance(v, (int, float)) and v != 0]
    first = found[0].expand(shape)
    if kwargs["word"] == "where":  # the condition has no scale
        found = found[1:]
        walk.ledger.mark(first := found[0].expand(shape), "where")
    for ids in found[1:]:
        walk.ledger.merge(first, ids)
        first = torch.where(first == ANY, ids, first)
    if numbers and max(numbers) > EPSILON:
        walk.ledger.zero(first)
    elif numbers:
        walk.ledger.mark(first, EPSILON_WORD)
    return first


@rule("mul", "div", "divide", "multiply")
def product(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Scales multiply."""
    power = -1.0 if kwargs["word"].startswith("div") else 1.0
    if kwargs.get("rounding_mode"):
        return curved(walk, args, kwargs, shape)
    signs = zip(args[:2], (1.0, power), strict=False)
    terms = [(walk.ids(v), s) for v, s in signs if isinstance(v, (Tensor, Weight))]
    return walk.ledger.combined(terms).expand(shape)


@rule("pow", *POWERS)
def power(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """A power multiplies the exponent."""
    degree = POWERS.get(kwargs["word"], args[1] if len(args) > 1 else None)
    if not isinstance(degree, (int, float)) or not isinstance(args[0], (Tensor, Weight)):
        return curved(walk, args, kwargs, shape)
    walk.ledger.mark(walk.ids(args[0]), kwargs["word"])
    return walk.ledger.combined([(walk.ids(args[0]), float(degree))])


@rule("clamp", "clamp_min", "clamp_max")
def clamped(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Cutting at 0 is homogeneous, at a tiny number nearly so, elsewhere not."""
    limits = [*args[1:], kwargs.get("min"), kwargs.get("max")]
    given = [v for v in limits if v is not None]
    if not all(isinstance(v, (int, float)) and abs(v) <= EPSILON for v in given):
        return curved(walk, args, kwargs, shape)
    if any(v != 0 for v in given):
        walk.ledger.mark(walk.ids(args[0]), EPSILON_WORD)
    return homogeneous(walk, args, kwargs, shape)


@rule("masked_fill")
def masked_fill(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Filling with 0 is like any other mask."""
    ids = walk.ids(args[0]).expand(shape)
    if not _is_number(args[2], 0):
        walk.ledger.zero(ids)
    return ids


@rule("sum", "mean", "amax", "amin", "max", "min", "norm", "linalg_vector_norm", "cumsum", "std")
def reduced(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """What is summed has one scale."""
    if len(args) > 1 and isinstance(args[1], (Tensor, Weight)):
        return merged(walk, args, kwargs, shape)  # max and min of two tensors
    word, ids = kwargs["word"], walk.ids(args[0])
    dims = args[2] if "norm" in word and len(args) > 2 else kwargs.get("dim", None)
    if dims is None and len(args) > 1 and "norm" not in word:
        dims = args[1]
    dims = [dims] if isinstance(dims, int) else list(dims or range(ids.ndim))
    kept = walk.ledger.along(ids, dims, keep=True)
    if word not in ("sum", "mean", "cumsum"):
        walk.ledger.mark(kept, word)
    if isinstance(shape, torch.Size):
        return _fit(kept, dims, shape)
    return (_fit(kept, dims, shape[0]), constants(shape[1]))


@rule("var")
def variance(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """A variance is of degree two."""
    return walk.ledger.combined([(reduced(walk, args, kwargs, shape), 2.0)])


def _fit(kept: Tensor, dims: list[int], shape: torch.Size) -> Tensor:
    """One entry along the reduced axes, in the shape that the result has."""
    if len(shape) == kept.ndim:
        return kept.expand(shape)
    return kept.squeeze([d % kept.ndim for d in dims]).expand(shape)


@rule("index", "index_select", "gather", "take_along_dim")
def indexed(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Which entries are taken is not known: all that could be have one scale."""
    ids = walk.ids(args[0])
    if kwargs["word"] == "index":
        dims = [d for d, index in enumerate(args[1]) if index is not None]
        if dims == list(range(len(dims))):
            return walk.ledger.along(ids, dims).expand(shape)
        return walk.ledger.along(ids, range(ids.ndim)).expand(shape)
    return walk.ledger.along(ids, [args[1]], keep=True).expand(shape)


@rule("view_as_complex")
def as_complex(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """The two parts of a number have one scale."""
    return walk.ledger.along(walk.ids(args[0]), [-1])


@rule("view_as_real")
def as_real(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Both parts get the number's scale."""
    return walk.ids(args[0]).unsqueeze(-1).expand(shape)


@rule("pad", "constant_pad_nd")
def padded(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Zeros fit everything; mirrored entries bring their own scale."""
    mode = args[2] if len(args) > 2 and isinstance(args[2], str) else "constant"
    value = args[-1] if len(args) > 2 and isinstance(args[-1], (int, float)) else 0.0
    ids = walk.ids(args[0]).double()
    fill = {"value": float(ANY if value == 0 else ZERO)} if mode == "constant" else {}
    return torch.nn.functional.pad(ids, args[1], mode=mode, **fill).long()


def moved(target: Callable[..., Any], walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """An operation that only moves entries."""

    def shown(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(shown(v) for v in value)
        return walk.ids(value) if isinstance(value, (Tensor, Weight)) else value

    return target(*shown(tuple(args)), **{k: v for k, v in kwargs.items() if k != "word"})


def _is_number(value: Any, number: float) -> bool:
    return isinstance(value, (int, float)) and value == number
