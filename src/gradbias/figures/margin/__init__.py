"""Classification: the separators of optimisers, their certificates, and how slow is slow."""

from ._adam import ADAM
from ._band import BAND
from ._depth import DEPTH
from ._entropy_law import ENTROPY_LAW
from ._five_optimisers import FIVE_OPTIMISERS
from ._scale import SCALE
from ._soudry import SOUDRY

FIGURES = (FIVE_OPTIMISERS, BAND, ENTROPY_LAW, SOUDRY, DEPTH, SCALE, ADAM)
