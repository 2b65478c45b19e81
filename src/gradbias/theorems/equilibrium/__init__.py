"""Ziyin, Wang, Li and Wu (2024): how noise moves the charges of symmetries, and where to."""

from . import (
    _broken_symmetry,
    _broken_symmetry_end,
    _charges,
    _deep,
    _deep_end,
    _eq_5,
    _factorisation_end,
    _joint,
    _lemma_b5_thm_4_5,
    _lemmas_b1_to_b4,
    _noether_flow,
    _prop_5_1,
    _scale_invariance,
    _sharpness,
    _thm_4_3,
    _thm_d1,
    _time_scales,
)
from ._one_input_one_output import RANK_ONE, TIMES

THEOREMS = (
    *_charges.THEOREMS,
    *_eq_5.THEOREMS,
    *_noether_flow.THEOREMS,
    TIMES,
    *_time_scales.THEOREMS,
    *_thm_4_3.THEOREMS,
    *_joint.THEOREMS,
    *_lemmas_b1_to_b4.THEOREMS,
    *_lemma_b5_thm_4_5.THEOREMS,
    *_prop_5_1.THEOREMS,
    RANK_ONE,
    *_sharpness.THEOREMS,
    *_factorisation_end.THEOREMS,
    *_deep.THEOREMS,
    *_deep_end.THEOREMS,
    *_broken_symmetry.THEOREMS,
    *_broken_symmetry_end.THEOREMS,
    *_scale_invariance.THEOREMS,
    *_thm_d1.THEOREMS,
)

__all__ = ["THEOREMS"]
