"""Spectral bias of two-layer linear nets: the theorems, in the paper's order."""

from ._appendix_d import CLOCK
from ._cor_3_1 import COR_3_1, LEMMA_C_10, PERTURBED
from ._curvature import CURVATURE
from ._descent import GAMMA_EFF, GD, GD_WHITENED
from ._label_noise import COLLAPSE, RANK_ONE
from ._label_noise_end import SLOW, STATIONARY
from ._lemmas_3_1_to_3_3 import LEMMA_3_1, LEMMA_3_2, LEMMA_3_3, LEMMA_C_3
from ._no_potential import NO_POTENTIAL
from ._prop_4_1 import PROP_A, PROP_C
from ._prop_4_1b import PROP_B
from ._rates import EXP_RATE, LEMMA_C_8
from ._rich_and_lazy import HOMOGENEITY, RICH_LAZY, TRADE_OFF
from ._sections_2_3 import BALANCED_RANK, DIMENSION, ZERO
from ._small import ALIGNMENT, NUCLEAR
from ._thm_3_1 import PROP_C_5, THM_3_1_I, THM_3_1_II, THM_3_1_III
from ._thm_3_2 import PSI, THM_3_2_A, THM_3_2_B
from ._thm_c12_small_gamma import HALF_TIME, JUMP
from ._thms_c11_c12 import THM_C_11, THM_C_12

THEOREMS = (
    DIMENSION,
    HOMOGENEITY,
    BALANCED_RANK,
    THM_3_1_I,
    THM_3_1_II,
    THM_3_1_III,
    ZERO,
    NUCLEAR,
    ALIGNMENT,
    COR_3_1,
    RICH_LAZY,
    THM_3_2_A,
    THM_3_2_B,
    PSI,
    LEMMA_3_1,
    LEMMA_3_2,
    LEMMA_3_3,
    LEMMA_C_3,
    PROP_C_5,
    NO_POTENTIAL,
    EXP_RATE,
    LEMMA_C_8,
    TRADE_OFF,
    LEMMA_C_10,
    THM_C_11,
    THM_C_12,
    HALF_TIME,
    JUMP,
    GD,
    GD_WHITENED,
    GAMMA_EFF,
    CURVATURE,
    PERTURBED,
    CLOCK,
    STATIONARY,
    SLOW,
    RANK_ONE,
    PROP_A,
    PROP_B,
    PROP_C,
    COLLAPSE,
)

__all__ = ["THEOREMS"]
