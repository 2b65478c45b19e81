"""Lyu and Zhu (NeurIPS 2023): GD and SGD on rank-1 linear nets.

The appendix alone was at hand: Figures 1, 2, 3 and 4(a) of the main text are not available.
"""

from ._alignment import FIGURE_4B, FIGURE_10
from ._alleviation import FIGURE_9
from ._diagonal import FIGURE_8A, FIGURE_8B
from ._ends import FIGURE_5A, FIGURE_5B
from ._large import FIGURE_7
from ._paths import FIGURE_6A
from ._relu import FIGURE_6C
from ._standard import FIGURE_5C, FIGURE_5D, FIGURE_6B
from ._unbalanced import FIGURE_11, FIGURE_12

FIGURES = (
    FIGURE_4B,
    FIGURE_5A,
    FIGURE_5B,
    FIGURE_5C,
    FIGURE_5D,
    FIGURE_6A,
    FIGURE_6B,
    FIGURE_6C,
    FIGURE_7,
    FIGURE_8A,
    FIGURE_8B,
    FIGURE_9,
    FIGURE_10,
    FIGURE_11,
    FIGURE_12,
)
