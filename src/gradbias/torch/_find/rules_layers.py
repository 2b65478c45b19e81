"""What layers do to exponents: linear maps, convolutions, products of matrices, attention."""

from typing import Any

import torch
from torch import Tensor

from .ledger import ZERO
from .rules import curved, rule
from .walk import Walk, Weight


@rule("linear")
def linear(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """A linear map, y = xWᵀ + b."""
    into = walk.ledger.along(walk.ids(args[0]), range(len(shape) - 1))
    out = walk.ledger.fresh(shape[-1])
    walk.makes(args[1], ((0,), out), ((1,), into))
    walk.adds(args[2] if len(args) > 2 else None, out)
    return out.expand(shape)


@rule("conv1d", "conv2d", "conv3d")
def convolution(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """One channel, one scale; `groups` are separate convolutions."""
    bias, groups = args[2] if len(args) > 2 else None, args[6] if len(args) > 6 else 1
    return _convolution(walk, args[0], args[1], bias, groups, shape)


@rule("convolution")
def any_convolution(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """The form that is left when models are taken apart further."""
    function = _transposed if args[6] else _convolution
    return function(walk, args[0], args[1], args[2], args[8], shape)


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Its weight has inputs first."""
    bias, groups = args[2] if len(args) > 2 else None, args[6] if len(args) > 6 else 1
    return _transposed(walk, args[0], args[1], bias, groups, shape)


def _convolution(walk: Walk, x: Any, weight: Any, bias: Any, groups: int, shape: Any) -> Tensor:
    channels, out = _channels(walk, x, weight), walk.ledger.fresh(weight.shape[0])
    into: tuple[tuple[int, ...], Tensor] = ((1,), channels)
    if groups > 1:
        into = ((0, 1), _grouped(channels, groups, len(out)))
    walk.makes(weight, ((0,), out), into)
    walk.adds(bias, out)
    return _in_channels(out, shape, len(weight.shape))


def _transposed(walk: Walk, x: Any, weight: Any, bias: Any, groups: int, shape: Any) -> Tensor:
    channels, out = _channels(walk, x, weight), walk.ledger.fresh(weight.shape[1] * groups)
    to: tuple[tuple[int, ...], Tensor] = ((1,), out)
    if groups > 1:
        to = ((0, 1), _grouped(out, groups, len(channels)))
    walk.makes(weight, to, ((0,), channels))
    walk.adds(bias, out)
    return _in_channels(out, shape, len(weight.shape))


def _grouped(ids: Tensor, groups: int, rows: int) -> Tensor:
    """(rows, len(ids)/groups): the exponents that the rows of each group meet."""
    return ids.reshape(groups, 1, -1).expand(-1, rows // groups, -1).reshape(rows, -1)


def _channels(walk: Walk, x: Any, weight: Any) -> Tensor:
    """The exponents of the channels of x, with or without an axis of samples."""
    ids = walk.ids(x)
    axis = ids.ndim - len(weight.shape) + 1
    return walk.ledger.along(ids, [d for d in range(ids.ndim) if d != axis])


def _in_channels(out: Tensor, shape: Any, axes: int) -> Tensor:
    return out.reshape(-1, *(1,) * (axes - 2)).expand(shape)


@rule("embedding")
def embedding(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """All words share the scale of a dimension."""
    if isinstance(args[0], Weight):
        out = walk.ledger.fresh(shape[-1])
        walk.adds(args[0], out)
        return out.expand(shape)
    return walk.ledger.along(args[0], [0]).expand(shape)


@rule("matmul", "mm", "bmm")
def matmul(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """A product of matrices, of which one may be a parameter."""
    a, b = args[:2]
    if len(a.shape) == 1 or len(b.shape) == 1:
        return curved(walk, args, kwargs, shape)
    if walk.is_parameter(b) and len(b.shape) == 2:
        x = walk.ids(a)
        out = walk.ledger.fresh(b.shape[1])
        into = walk.ledger.along(x, range(x.ndim - 1))
        walk.makes(b, ((1,), out), ((0,), into))
        return out.expand(shape)
    if walk.is_parameter(a) and len(a.shape) == 2:
        x = walk.ids(b)
        out = walk.ledger.fresh(a.shape[0])
        into = walk.ledger.along(x, [d for d in range(x.ndim) if d != x.ndim - 2])
        walk.makes(a, ((0,), out), ((1,), into))
        return out[:, None].expand(shape)
    return contracted(walk, walk.ids(a), walk.ids(b), shape)


@rule("addmm", "baddbmm")
def addmm(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """The form of a linear map that is left when models are taken apart further."""
    out = matmul(walk, args[1:3], kwargs, shape)
    if isinstance(args[0], Weight) and len(args[0].shape) == 1:
        walk.adds(args[0], out.reshape(-1, shape[-1])[0])
    else:
        walk.ledger.merge(walk.ids(args[0]), out)
    return out


def contracted(walk: Walk, a: Tensor, b: Tensor, shape: Any) -> Tensor:
    """Matrices a (…, n, k) times b (…, k, m): the products summed over k have one scale."""
    ledger = walk.ledger
    if bool((a == ZERO).all()):
        ledger.head(b, "value-out")
        return ledger.along(b, [-2], keep=True).expand(shape)
    if bool((b == ZERO).all()):
        return ledger.along(a, [-1], keep=True).expand(shape)
    if _even(a, -1) and _even(b, -2):
        return ledger.combined([(a[..., :1], 1.0), (b[..., :1, :], 1.0)]).expand(shape)
    ledger.head(a, "query-key")
    one, other = ledger.along(a, [-2], keep=True), ledger.along(b, [-1], keep=True).mT
    batch = torch.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    score = ledger.fresh(*batch, 1, 1)
    ledger.relate((one, other, score), (1.0, 1.0, -1.0))
    return score.expand(shape)


def _even(ids: Tensor, dim: int) -> bool:
    return bool((ids == ids.narrow(dim, 0, 1)).all())


@rule("scaled_dot_product_attention")
def attention(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Scores do not scale: what queries gain, keys lose. Values go through."""
    q, k, v = (walk.ids(value) for value in args[:3])
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:  # heads that share keys
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], dim=-3) for t in (k, v))
    score = contracted(walk, q, k.mT, (*q.shape[:-1], k.shape[-2]))
    walk.ledger.zero(score)
    for mask in args[3:4]:
        if isinstance(mask, (Tensor, Weight)):
            walk.ledger.zero(walk.ids(mask))
    walk.ledger.head(v, "value-out")
    return walk.ledger.along(v, [-2], keep=True).expand(shape)
