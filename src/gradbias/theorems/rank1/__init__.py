"""Lyu and Zhu (2023): rank-1, deep and diagonal linear nets under gradient flow, GD and SGD."""

from . import (
    _depth,
    _finite_step,
    _invariants,
    _proof_of_thm_3,
    _sde,
    _sgd_gap,
    _sgd_limit,
    _theorem3,
    _thms_1_2,
    _unbalanced_and_diagonal,
    _velocities,
)

THEOREMS = (
    *_invariants.THEOREMS,
    *_velocities.THEOREMS,
    *_thms_1_2.THEOREMS,
    *_depth.THEOREMS,
    *_unbalanced_and_diagonal.THEOREMS,
    *_finite_step.THEOREMS,
    *_sgd_gap.THEOREMS,
    *_sgd_limit.THEOREMS,
    *_sde.THEOREMS,
    *_theorem3.THEOREMS,
    *_proof_of_thm_3.THEOREMS,
)
