"""How much of a step is a rotation of a hidden space, which heavy ball from rest never makes."""

import math
from collections.abc import Mapping

import torch

from .._find.family import Family
from .._find.pairs import sides
from .undisturbed import precise


def angular_momentum(
    family: Family, before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
) -> float:
    r"""‖J‖/‖M‖ of a step d of a pair: M = Σ dθᵀ over both sides, J its antisymmetric part.

    Zero up to rounding for gradient descent and heavy ball from rest, whatever the batches and the
    decay; 1 where a step is a rotation and nothing else. nan where hidden units cannot be mixed.

    Args:
        family: of kind "pair", two linear maps that meet.
        before: parameters before the step.
        after: those after it.
    """
    if family.kind != "pair":
        return math.nan
    old, new = (
        sides(family, {name: precise(params[name].detach()) for name in family.parameters})
        for params in (before, after)
    )
    if old is None or new is None:
        return math.nan
    total = sum((b - a) @ a.mT for a, b in zip(old, new, strict=True))
    assert isinstance(total, torch.Tensor)
    length = float(total.norm())
    return float((total - total.mT).norm()) / 2 / length if length > 0 else math.nan
