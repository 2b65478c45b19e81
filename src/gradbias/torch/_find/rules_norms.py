"""What normalisations, pools and gates do to exponents."""

import torch
from torch import Tensor

from .ledger import ANY, EPSILON_WORD, ZERO
from .rules import rule, with_rest
from .walk import GraphWalk, Operation, Weight


@rule("layer_norm", "rms_norm", "native_layer_norm")
def layer_norm(walk: GraphWalk, op: Operation) -> object:
    """What is normalised has one scale, of which nothing is left; then comes the gain."""
    x = walk.ids(op.args[0])
    over = tuple(op.args[1])
    weight, bias = (op.argument(i) for i in (2, 3))
    if "rms" in op.word:
        bias = None
    walk.ledger.mark(x, op.word)
    walk.ledger.mark(x, EPSILON_WORD)
    walk.ledger.along(x, range(-len(over), 0))
    return _affine(walk, op, weight, bias, over)


@rule("group_norm")
def group_norm(walk: GraphWalk, op: Operation) -> object:
    """One scale for each group of channels."""
    x = walk.ids(op.args[0])
    groups = op.args[1]
    weight, bias = (op.argument(i) for i in (2, 3))
    walk.ledger.mark(x, op.word)
    walk.ledger.mark(x, EPSILON_WORD)
    walk.ledger.along(x.reshape(x.shape[0], groups, -1), [0, 2])
    return _affine(walk, op, weight, bias, (x.shape[1],), x.ndim - 2)


@rule("batch_norm", "instance_norm")
def batch_norm(walk: GraphWalk, op: Operation) -> object:
    """One scale for each channel, where its own statistics are used; else none."""
    x, weight, bias, _, _, by_batch = op.args[:6]
    x = walk.ids(x)
    if by_batch:
        walk.ledger.mark(x, op.word)
        walk.ledger.mark(x, EPSILON_WORD)
        walk.ledger.along(x, [d for d in range(x.ndim) if d != 1])
    else:  # running statistics do not follow the weights
        walk.ledger.zero(x)
    return _affine(walk, op, weight, bias, (x.shape[1],), x.ndim - 2)


def _affine(
    walk: GraphWalk,
    op: Operation,
    weight: Tensor | Weight | None,
    bias: Tensor | Weight | None,
    over: tuple[int, ...],
    axes: int = 0,
) -> object:
    """Gain and shift; `axes` follow those that they are along."""
    out = walk.gain(weight, over)
    walk.adds(bias, out)
    return with_rest(out.reshape(*out.shape, *(1,) * axes).expand(op.size), op)


@rule(
    *(f"{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_avg") for n in (1, 2, 3)),
    *(f"adaptive_max_pool{n}d" for n in (1, 2, 3)),
    *(f"max_pool{n}d_with_indices" for n in (1, 2, 3)),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d", "upsample_linear1d"),
    *("_adaptive_avg_pool2d", "interpolate"),
)
def pool(walk: GraphWalk, op: Operation) -> object:
    """One channel, one scale."""
    ids = walk.ids(op.args[0])
    axes = int(next(c for c in op.word if c.isdigit()))
    if "max" in op.word:
        walk.ledger.mark(ids, op.word)
    return with_rest(walk.ledger.along(ids, range(-axes, 0), keep=True).expand(op.size), op)


@rule("glu")
def glu(walk: GraphWalk, op: Operation) -> Tensor:
    """The gate is curved, the rest goes through."""
    value, gate = walk.ids(op.args[0]).chunk(2, op.argument(1, -1))
    walk.ledger.zero(gate)
    return torch.where(value == ANY, ZERO, value)
