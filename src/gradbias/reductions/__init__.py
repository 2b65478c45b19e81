"""Exact reductions: a smaller run with the same trajectory, and the way back."""

from ._growth_bound import largest_between
from ._pad import Frame, padded_lift, padded_params, padded_problem, rounded
from ._reduce import Lift, Reduction, reduce

__all__ = [
    "Frame",
    "Lift",
    "Reduction",
    "largest_between",
    "padded_lift",
    "padded_params",
    "padded_problem",
    "reduce",
    "rounded",
]
