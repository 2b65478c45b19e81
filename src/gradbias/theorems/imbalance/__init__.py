"""Min, Tarmoun, Vidal and Mallada (2021): imbalance and width of two-layer linear nets."""

from . import (
    _appendix_d,
    _bias_law,
    _infinite_width,
    _lemma_b3,
    _level,
    _section_2,
    _section_4,
    _sections_3_1_3_2,
    _thm_1,
    _thm_2,
)

THEOREMS = (
    *_section_2.THEOREMS,
    *_level.THEOREMS,
    *_lemma_b3.THEOREMS,
    *_thm_1.THEOREMS,
    *_sections_3_1_3_2.THEOREMS,
    *_bias_law.THEOREMS,
    *_thm_2.THEOREMS,
    *_infinite_width.THEOREMS,
    *_section_4.THEOREMS,
    *_appendix_d.THEOREMS,
)
