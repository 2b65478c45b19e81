"""What normalisations, pools and gates do to exponents."""

from typing import Any

import torch
from torch import Tensor

from .ledger import ANY, EPSILON_WORD, ZERO
from .rules import constants, rule
from .walk import Walk


@rule("layer_norm", "rms_norm", "native_layer_norm")
def layer_norm(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """What is normalised has one scale, of which nothing is left; then comes the gain."""
    x, over = walk.ids(args[0]), tuple(args[1])
    weight, bias = (*args[2:4], None, None)[:2]
    if "rms" in kwargs["word"]:
        bias = None
    walk.ledger.mark(x, kwargs["word"])
    walk.ledger.mark(x, EPSILON_WORD)
    walk.ledger.along(x, range(-len(over), 0))
    return _affine(walk, weight, bias, over, shape, 0)


@rule("group_norm")
def group_norm(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """One scale for each group of channels."""
    x, groups = walk.ids(args[0]), args[1]
    weight, bias = (*args[2:4], None, None)[:2]
    walk.ledger.mark(x, kwargs["word"])
    walk.ledger.mark(x, EPSILON_WORD)
    walk.ledger.along(x.reshape(x.shape[0], groups, -1), [0, 2])
    return _affine(walk, weight, bias, (x.shape[1],), shape, x.ndim - 2)


@rule("batch_norm", "instance_norm")
def batch_norm(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """One scale for each channel, where its own statistics are used; else none."""
    x, weight, bias, _, _, own = args[:6]
    x = walk.ids(x)
    if own:
        walk.ledger.mark(x, kwargs["word"])
        walk.ledger.mark(x, EPSILON_WORD)
        walk.ledger.along(x, [d for d in range(x.ndim) if d != 1])
    else:  # running statistics do not follow the weights
        walk.ledger.zero(x)
    return _affine(walk, weight, bias, (x.shape[1],), shape, x.ndim - 2)


def _affine(
    walk: Walk, weight: Any, bias: Any, over: tuple[int, ...], shape: Any, axes: int
) -> Any:
    """Gain and shift; `axes` follow those that they are along."""
    out = walk.gain(weight, over)
    walk.adds(bias, out)
    first, *more = [shape] if isinstance(shape, torch.Size) else shape
    full = out.reshape(*out.shape, *(1,) * axes).expand(first)
    return (full, *(constants(s) for s in more)) if more else full


@rule(
    *(f"{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_avg") for n in (1, 2, 3)),
    *(f"adaptive_max_pool{n}d" for n in (1, 2, 3)),
    *(f"max_pool{n}d_with_indices" for n in (1, 2, 3)),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d", "upsample_linear1d"),
    *("_adaptive_avg_pool2d", "interpolate"),
)
def pool(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Any:
    """One channel, one scale."""
    first, *more = [shape] if isinstance(shape, torch.Size) else shape
    ids, axes = walk.ids(args[0]), int(next(c for c in kwargs["word"] if c.isdigit()))
    if "max" in kwargs["word"]:
        walk.ledger.mark(ids, kwargs["word"])
    kept = walk.ledger.along(ids, range(-axes, 0), keep=True).expand(first)
    return (kept, *(constants(s) for s in more)) if more else kept


@rule("glu")
def glu(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """The gate is curved, the rest goes through."""
    value, gate = walk.ids(args[0]).chunk(2, args[1] if len(args) > 1 else -1)
    walk.ledger.zero(gate)
    return torch.where(value == ANY, ZERO, value)
