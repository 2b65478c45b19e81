"""What sums over named axes do to exponents: einsum of two tensors, one maybe a parameter."""

import math

import torch
from torch import Tensor

from .rules import rule
from .rules_layers import contracted
from .walk import GraphWalk, Operation, Weight


@rule("einsum")
def einsum(walk: GraphWalk, op: Operation) -> Tensor:
    """Two tensors with letters for axes; anything else is not understood."""
    inputs, _, out = op.args[0].replace(" ", "").partition("->")
    letters = inputs.split(",")
    values = list(op.args[1])
    odd = "." in op.args[0] or "->" not in op.args[0] or len(values) != 2
    if odd or any(len(set(word)) < len(word) for word in (*letters, out)):
        raise ValueError(f"einsum {op.args[0]!r} is not a sum over two tensors with plain letters")
    for i in (1, 0):
        if walk.is_parameter(values[i]):
            sides = (letters[i], letters[1 - i], out)
            return _weighted(walk, values[i], walk.ids(values[1 - i]), sides, op.size)
    return _plain(walk, [walk.ids(v) for v in values], letters, out, op.size)


def _weighted(
    walk: GraphWalk,
    weight: Weight | Tensor,
    x: Tensor,
    sides: tuple[str, str, str],
    size: torch.Size,
) -> Tensor:
    """A parameter takes the letters that it shares with x to those that it shares with the sum."""
    axes, inputs, out = sides
    length = dict(zip(axes, weight.shape, strict=True))
    shared = [c for c in axes if c in inputs]
    made = [c for c in axes if c in out]
    into = walk.ledger.along(x, [inputs.index(c) for c in inputs if c not in axes])
    left = [c for c in inputs if c in axes]
    into = into.permute([left.index(c) for c in shared])
    new = walk.ledger.fresh(*(length[c] for c in made))
    walk.makes(
        weight,
        (tuple(axes.index(c) for c in made), new),
        (tuple(axes.index(c) for c in shared), into),
    )
    return _placed(new, made, out).expand(size)


def _placed(ids: Tensor, letters: list[str], out: str) -> Tensor:
    """Axes in the order of the sum, those that are missing of size one."""
    present = [c for c in out if c in letters]
    ids = ids.permute([letters.index(c) for c in present])
    for axis, c in enumerate(out):
        if c not in letters:
            ids = ids.unsqueeze(axis)
    return ids


def _plain(
    walk: GraphWalk, ids: list[Tensor], letters: list[str], out: str, size: torch.Size
) -> Tensor:
    """A product of matrices, with the other axes along."""
    for i, (mine, others) in enumerate(((letters[0], letters[1]), (letters[1], letters[0]))):
        alone = [mine.index(c) for c in mine if c not in others and c not in out]
        if alone:
            ids[i] = walk.ledger.along(ids[i], alone)
            letters[i] = "".join(c for c in mine if c in others or c in out)
    a, b = letters
    both = [c for c in a if c in b and c in out]
    summed = [c for c in a if c in b and c not in out]
    rows = [c for c in a if c not in b]
    columns = [c for c in b if c not in a]
    length = dict(zip(a, ids[0].shape, strict=True)) | dict(zip(b, ids[1].shape, strict=True))
    one = _matrix(ids[0], a, both, rows, summed)
    other = _matrix(ids[1], b, both, summed, columns)
    products = contracted(walk, one, other, (*one.shape[:-1], other.shape[-1]))
    order = [*both, *rows, *columns]
    return _placed(products.reshape([length[c] for c in order]), order, out).expand(size)


def _matrix(ids: Tensor, letters: str, *groups: list[str]) -> Tensor:
    """Axes in three groups, the last two flattened."""
    first, *pair = groups
    moved = ids.permute([letters.index(c) for group in groups for c in group])
    sizes = [ids.shape[letters.index(c)] for c in first]
    flat = [math.prod(ids.shape[letters.index(c)] for c in group) for group in pair]
    return moved.reshape(*sizes, *flat)
