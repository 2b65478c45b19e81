"""Plots of people's own runs: `(result, *, ax=None) -> Axes`. Nothing is shown or saved here."""

from ._charges import charges
from ._limit import limit
from ._loss import loss
from ._noise_balance import noise_balance
from ._plane import plane
from ._singular_values import singular_values
from ._style import BLACK, BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, SKY, YELLOW, size, style
from ._sweep import sweep
from ._verdicts import verdicts

__all__ = [
    "BLACK",
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "SKY",
    "YELLOW",
    "charges",
    "limit",
    "loss",
    "noise_balance",
    "plane",
    "singular_values",
    "size",
    "style",
    "sweep",
    "verdicts",
]
