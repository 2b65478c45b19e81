"""Ziyin, Wang, Li and Wu (2024): how noise moves the charges of symmetries, and where to."""

from . import (
    _approximate,
    _deep,
    _deep_ends,
    _ends,
    _factor,
    _fixed_points,
    _flow,
    _held,
    _joint,
    _noether,
    _pulls,
    _scale,
    _sharpness,
    _tracking,
)
from ._rank_one import RANK_ONE, TIMES

THEOREMS = (
    *_flow.THEOREMS,
    *_noether.THEOREMS,
    TIMES,
    *_fixed_points.THEOREMS,
    *_joint.THEOREMS,
    *_pulls.THEOREMS,
    *_tracking.THEOREMS,
    *_factor.THEOREMS,
    RANK_ONE,
    *_sharpness.THEOREMS,
    *_ends.THEOREMS,
    *_deep.THEOREMS,
    *_deep_ends.THEOREMS,
    *_approximate.THEOREMS,
    *_held.THEOREMS,
    *_scale.THEOREMS,
)

__all__ = ["THEOREMS"]
