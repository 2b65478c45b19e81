"""What sums over named axes do to exponents: einsum of two tensors, one maybe a parameter."""

import math
from typing import Any

from torch import Tensor

from .rules import rule
from .rules_layers import contracted
from .walk import Walk, Weight


@rule("einsum")
def einsum(walk: Walk, args: Any, kwargs: Any, shape: Any) -> Tensor:
    """Two tensors with letters for axes; anything else is not understood."""
    inputs, _, out = args[0].replace(" ", "").partition("->")
    letters, values = inputs.split(","), list(args[1])
    odd = "." in args[0] or "->" not in args[0] or len(values) != 2
    if odd or any(len(set(word)) < len(word) for word in (*letters, out)):
        raise ValueError(f"einsum {args[0]!r} is not a sum over two tensors with plain letters")
    for i in (1, 0):
        if walk.is_parameter(values[i]):
            sides = (letters[i], letters[1 - i], out)
            return _weighted(walk, values[i], walk.ids(values[1 - i]), sides, shape)
    return _plain(walk, [walk.ids(v) for v in values], letters, out, shape)


def _weighted(
    walk: Walk, weight: Weight | Tensor, x: Tensor, sides: tuple[str, str, str], shape: Any
) -> Tensor:
    """A parameter takes the letters that it shares with x to those that it shares with the sum."""
    own, given, out = sides
    size = dict(zip(own, weight.shape, strict=True))
    shared, made = [c for c in own if c in given], [c for c in own if c in out]
    into = walk.ledger.along(x, [given.index(c) for c in given if c not in own])
    left = [c for c in given if c in own]
    into = into.permute([left.index(c) for c in shared])
    new = walk.ledger.fresh(*(size[c] for c in made))
    walk.makes(
        weight,
        (tuple(own.index(c) for c in made), new),
        (tuple(own.index(c) for c in shared), into),
    )
    return _placed(new, made, out).expand(shape)


def _placed(ids: Tensor, letters: list[str], out: str) -> Tensor:
    """Axes in the order of the sum, those that are missing of size one."""
    present = [c for c in out if c in letters]
    ids = ids.permute([letters.index(c) for c in present])
    for axis, c in enumerate(out):
        if c not in letters:
            ids = ids.unsqueeze(axis)
    return ids


def _plain(walk: Walk, ids: list[Tensor], letters: list[str], out: str, shape: Any) -> Tensor:
    """A product of matrices, with the other axes along."""
    for i, (own, other) in enumerate(((letters[0], letters[1]), (letters[1], letters[0]))):
        alone = [own.index(c) for c in own if c not in other and c not in out]
        if alone:
            ids[i] = walk.ledger.along(ids[i], alone)
            letters[i] = "".join(c for c in own if c in other or c in out)
    a, b = letters
    both = [c for c in a if c in b and c in out]
    summed = [c for c in a if c in b and c not in out]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    size = dict(zip(a, ids[0].shape, strict=True)) | dict(zip(b, ids[1].shape, strict=True))
    one = _matrix(ids[0], a, both, rows, summed)
    other = _matrix(ids[1], b, both, summed, columns)
    found = contracted(walk, one, other, (*one.shape[:-1], other.shape[-1]))
    order = [*both, *rows, *columns]
    return _placed(found.reshape([size[c] for c in order]), order, out).expand(shape)


def _matrix(ids: Tensor, letters: str, *groups: list[str]) -> Tensor:
    """Axes in three groups, the last two flattened."""
    first, *pair = groups
    moved = ids.permute([letters.index(c) for group in groups for c in group])
    sizes = [ids.shape[letters.index(c)] for c in first]
    flat = [math.prod(ids.shape[letters.index(c)] for c in group) for group in pair]
    return moved.reshape(*sizes, *flat)
