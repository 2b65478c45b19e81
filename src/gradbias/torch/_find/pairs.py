"""Pairs: two linear maps that meet, with any invertible matrix between them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from .family import Family, ParameterPart

Named = Mapping[str, Tensor]


def sides(family: Family, values: Named) -> tuple[Tensor, Tensor] | None:
    """What goes into the units of each block and what comes out, (blocks, block, …) each.

    None where entries do not lie along one axis of units, so that no matrix can act on them.
    """
    into = []
    out = []
    for part in family.parts:
        rows = _rows(part, values[part.parameter], family.units)
        if family.block is None or rows is None or abs(part.mu) != 1:
            return None
        (into if part.mu > 0 else out).append(rows.reshape(-1, family.block, rows.shape[1]))
    return (torch.cat(into, 2), torch.cat(out, 2)) if into and out else None


def mixed(family: Family, values: Named, into: Tensor, out: Tensor) -> dict[str, Tensor]:
    """New tensors: what goes into each block times `into`, what comes out times `out`.

    Args:
        family: a pair.
        values: tensors shaped like the parameters.
        into: (blocks, block, block).
        out: the same; the transposed inverse of `into` keeps the function.
    """
    moved: dict[str, Tensor] = {}
    for part in family.parts:
        value = moved.get(part.parameter, values[part.parameter])
        rows = _rows(part, value, family.units)
        assert rows is not None
        matrix = (into if part.mu > 0 else out).to(value)
        new = (matrix @ rows.reshape(len(matrix), family.block or 1, -1)).reshape(rows.shape)
        moved[part.parameter] = _put(part, value, new, family.units)
    return moved


def _positions(part: ParameterPart, units: int) -> Tensor | None:
    """The positions along the axes, unit by unit; None where units have unequal numbers."""
    unit = part.unit.reshape(-1)
    count = torch.bincount(unit[unit >= 0], minlength=units)
    if not bool((count == count[0]).all()) or int(count[0]) == 0:
        return None
    order = torch.argsort(unit, stable=True)
    return order[int((unit < 0).sum()) :]


def _rows(part: ParameterPart, value: Tensor, units: int) -> Tensor | None:
    """(units, …): all entries of each unit."""
    where = _positions(part, units)
    if where is None:
        return None
    return _front(part, value)[where.to(value.device)].reshape(units, -1)


def _front(part: ParameterPart, value: Tensor) -> Tensor:
    """(positions along the axes, …)."""
    return value.movedim(part.dims, tuple(range(len(part.dims)))).reshape(part.unit.numel(), -1)


def _put(part: ParameterPart, value: Tensor, rows: Tensor, units: int) -> Tensor:
    where = _positions(part, units)
    assert where is not None
    axes = tuple(range(len(part.dims)))
    front = _front(part, value).clone()
    front[where.to(value.device)] = rows.reshape(len(where), -1)
    return front.reshape(value.movedim(part.dims, axes).shape).movedim(axes, part.dims)
