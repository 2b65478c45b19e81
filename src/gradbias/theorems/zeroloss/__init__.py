"""Li, Wang and Arora (2022): what SGD does after it has reached zero loss."""

from . import (
    _eq_5,
    _lemma_6_2_signs,
    _lemma_6_5,
    _lemma_c8,
    _lemma_d11,
    _lemmas_4_3_4_5,
    _lemmas_c4_to_c7,
    _remark_b10_thm_6_1,
    _section_5,
    _section_6_1,
    _steps,
    _thm_4_6,
    _thms_6_6_6_7,
)

THEOREMS = (
    *_lemmas_4_3_4_5.THEOREMS,
    *_eq_5.THEOREMS,
    *_lemmas_c4_to_c7.THEOREMS,
    *_lemma_c8.THEOREMS,
    *_thm_4_6.THEOREMS,
    *_section_5.THEOREMS,
    *_section_6_1.THEOREMS,
    *_lemma_6_2_signs.THEOREMS,
    *_lemma_6_5.THEOREMS,
    *_lemma_d11.THEOREMS,
    *_steps.THEOREMS,
    *_remark_b10_thm_6_1.THEOREMS,
    *_thms_6_6_6_7.THEOREMS,
)
