"""Lyu and Zhu (2023): rank-1, deep and diagonal linear nets under gradient flow, GD and SGD."""

from . import _equations, _gap_law, _generator, _invariants, _limits, _sgd_limit, _theorem3

THEOREMS = (
    *_invariants.THEOREMS,
    *_equations.THEOREMS,
    *_limits.THEOREMS,
    *_gap_law.THEOREMS,
    *_sgd_limit.THEOREMS,
    *_generator.THEOREMS,
    *_theorem3.THEOREMS,
)
