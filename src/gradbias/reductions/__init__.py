"""Exact reductions: a smaller run with the same trajectory, and the way back."""

from ._growth_bound import Growth, largest_between
from ._pad import PaddedSize, padded_lift, padded_params, padded_problem, rounded
from ._reduce import Lift, Reduction, reduce

__all__ = [
    "Growth",
    "Lift",
    "PaddedSize",
    "Reduction",
    "largest_between",
    "padded_lift",
    "padded_params",
    "padded_problem",
    "reduce",
    "rounded",
]
