"""Lyu and Zhu (2023): rank-1, deep and diagonal linear nets under gradient flow and descent."""

from . import _equations, _invariants, _limits

THEOREMS = (*_invariants.THEOREMS, *_equations.THEOREMS, *_limits.THEOREMS)
