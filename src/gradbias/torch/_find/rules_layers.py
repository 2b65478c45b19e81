"""What layers do to exponents: linear maps, convolutions, products of matrices, attention."""

import torch
from torch import Tensor

from .ledger import ZERO, is_all, slices
from .rules import curved_tensor, rule
from .walk import GraphWalk, Operation, Weight


@rule("linear")
def linear(walk: GraphWalk, op: Operation) -> Tensor:
    """A linear map, y = xWᵀ + b."""
    into = walk.ledger.along(walk.ids(op.args[0]), range(len(op.size) - 1))
    out = walk.ledger.fresh(op.size[-1])
    walk.makes(op.args[1], ((0,), out), ((1,), into))
    walk.adds(op.argument(2), out)
    return out.expand(op.size)


@rule("conv1d", "conv2d", "conv3d")
def convolution(walk: GraphWalk, op: Operation) -> Tensor:
    """One channel, one scale; `groups` are separate convolutions."""
    return _convolution(walk, op, op.argument(6, 1))


@rule("convolution")
def any_convolution(walk: GraphWalk, op: Operation) -> Tensor:
    """The form that is left when models are taken apart further."""
    return (_transposed if op.args[6] else _convolution)(walk, op, op.args[8])


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(walk: GraphWalk, op: Operation) -> Tensor:
    """Its weight has inputs first."""
    return _transposed(walk, op, op.argument(6, 1))


def _convolution(walk: GraphWalk, op: Operation, groups: int) -> Tensor:
    x, weight, bias = (op.argument(i) for i in range(3))
    channels = _channels(walk, x, weight)
    out = walk.ledger.fresh(weight.shape[0])
    into: tuple[tuple[int, ...], Tensor] = ((1,), channels)
    if groups > 1:
        into = ((0, 1), _grouped(channels, groups, len(out)))
    walk.makes(weight, ((0,), out), into)
    walk.adds(bias, out)
    return _in_channels(out, op.size, len(weight.shape))


def _transposed(walk: GraphWalk, op: Operation, groups: int) -> Tensor:
    x, weight, bias = (op.argument(i) for i in range(3))
    channels = _channels(walk, x, weight)
    out = walk.ledger.fresh(weight.shape[1] * groups)
    to: tuple[tuple[int, ...], Tensor] = ((1,), out)
    if groups > 1:
        to = ((0, 1), _grouped(out, groups, len(channels)))
    walk.makes(weight, to, ((0,), channels))
    walk.adds(bias, out)
    return _in_channels(out, op.size, len(weight.shape))


def _grouped(ids: Tensor, groups: int, rows: int) -> Tensor:
    """(rows, len(ids)/groups): the exponents that the rows of each group meet."""
    return ids.reshape(groups, 1, -1).expand(-1, rows // groups, -1).reshape(rows, -1)


def _channels(walk: GraphWalk, x: Tensor | Weight, weight: Tensor | Weight) -> Tensor:
    """The exponents of the channels of x, with or without an axis of samples."""
    ids = walk.ids(x)
    axis = ids.ndim - len(weight.shape) + 1
    return walk.ledger.along(ids, [d for d in range(ids.ndim) if d != axis])


def _in_channels(out: Tensor, size: torch.Size, axes: int) -> Tensor:
    return out.reshape(-1, *(1,) * (axes - 2)).expand(size)


@rule("embedding")
def embedding(walk: GraphWalk, op: Operation) -> Tensor:
    """All words share the scale of a dimension."""
    if isinstance(op.args[0], Weight):
        out = walk.ledger.fresh(op.size[-1])
        walk.adds(op.args[0], out)
        return out.expand(op.size)
    return walk.ledger.along(op.args[0], [0]).expand(op.size)


@rule("matmul", "mm", "bmm")
def matmul(walk: GraphWalk, op: Operation) -> Tensor:
    """A product of matrices, of which one may be a parameter."""
    a, b = op.args[:2]
    if len(a.shape) == 1 or len(b.shape) == 1:
        return curved_tensor(walk, op)
    if walk.is_parameter(b) and len(b.shape) == 2:
        x = walk.ids(a)
        out = walk.ledger.fresh(b.shape[1])
        into = walk.ledger.along(x, range(x.ndim - 1))
        walk.makes(b, ((1,), out), ((0,), into))
        return out.expand(op.size)
    if walk.is_parameter(a) and len(a.shape) == 2:
        x = walk.ids(b)
        out = walk.ledger.fresh(a.shape[0])
        into = walk.ledger.along(x, [d for d in range(x.ndim) if d != x.ndim - 2])
        walk.makes(a, ((0,), out), ((1,), into))
        return out[:, None].expand(op.size)
    return contracted(walk, walk.ids(a), walk.ids(b), op.size)


@rule("addmm", "baddbmm")
def addmm(walk: GraphWalk, op: Operation) -> Tensor:
    """The form of a linear map that is left when models are taken apart further."""
    out = matmul(walk, op._replace(args=op.args[1:3]))
    if isinstance(op.args[0], Weight) and len(op.args[0].shape) == 1:
        walk.adds(op.args[0], out.reshape(-1, op.size[-1])[0])
    else:
        walk.ledger.merge(walk.ids(op.args[0]), out)
    return out


def contracted(walk: GraphWalk, a: Tensor, b: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Matrices a (…, n, k) times b (…, k, m): the products summed over k have one scale."""
    ledger = walk.ledger
    if is_all(a, ZERO):
        ledger.head(b, "value-out")
        return ledger.along(b, [-2], keep=True).expand(shape)
    if is_all(b, ZERO):
        return ledger.along(a, [-1], keep=True).expand(shape)
    if _even(a, -1) and _even(b, -2):
        return ledger.combined([(a[..., :1], 1.0), (b[..., :1, :], 1.0)]).expand(shape)
    ledger.head(a, "query-key")
    one = ledger.along(a, [-2], keep=True)
    other = ledger.along(b, [-1], keep=True).mT
    batch = torch.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    score = ledger.fresh(*batch, 1, 1)
    ledger.relate((one, other, score), (1.0, 1.0, -1.0))
    return score.expand(shape)


def _even(ids: Tensor, dim: int) -> bool:
    few = slices(ids)[0]
    return bool((few == few.narrow(dim, 0, 1)).all())


@rule("scaled_dot_product_attention")
def attention(walk: GraphWalk, op: Operation) -> Tensor:
    """Scores do not scale: what queries gain, keys lose. Values go through."""
    q, k, v = (walk.ids(value) for value in op.args[:3])
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:  # heads that share keys
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], dim=-3) for t in (k, v))
    score = contracted(walk, q, k.mT, (*q.shape[:-1], k.shape[-2]))
    walk.ledger.zero(score)
    for mask in op.args[3:4]:
        if isinstance(mask, (Tensor, Weight)):
            walk.ledger.zero(walk.ids(mask))
    walk.ledger.head(v, "value-out")
    return walk.ledger.along(v, [-2], keep=True).expand(op.size)
