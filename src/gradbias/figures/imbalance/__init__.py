"""Min, Tarmoun, Vidal, Mallada (ICML 2021): how imbalance and width decide speed and bias.

Figures 1 and 2 of the text are 4 and 3 of its appendix.
"""

from ._rates import FIGURE_2
from ._width import FIGURE_1

FIGURES = (FIGURE_1, FIGURE_2)
