"""Classification: which separator, how fast, and what a predictor proves about the best one."""

from ._certificate import DualityGap, MarginBounds, certificate, duality_gap
from ._diagonal_margin import DiagonalMargin, diagonal_margin
from ._entropy import entropy_gap
from ._hard_margin import hard_margin
from ._offset import Offset, offset
from ._rates import RateConstants, rate_constants

__all__ = [
    "DiagonalMargin",
    "DualityGap",
    "MarginBounds",
    "Offset",
    "RateConstants",
    "certificate",
    "diagonal_margin",
    "duality_gap",
    "entropy_gap",
    "hard_margin",
    "offset",
    "rate_constants",
]
