"""Lyu and Zhu (2023): rank-1, deep and diagonal linear nets under gradient flow, GD and SGD."""

from . import _invariants, _limits, _sde, _sgd_gap, _sgd_limit, _theorem3, _velocities

THEOREMS = (
    *_invariants.THEOREMS,
    *_velocities.THEOREMS,
    *_limits.THEOREMS,
    *_sgd_gap.THEOREMS,
    *_sgd_limit.THEOREMS,
    *_sde.THEOREMS,
    *_theorem3.THEOREMS,
)
