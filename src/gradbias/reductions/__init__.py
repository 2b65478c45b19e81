"""Exact reductions: a smaller run with the same trajectory, and the way back."""

from ._pad import Frame, padded_lift, padded_params, padded_problem, rounded
from ._reduce import Lift, Reduction, reduce

__all__ = [
    "Frame",
    "Lift",
    "Reduction",
    "padded_lift",
    "padded_params",
    "padded_problem",
    "reduce",
    "rounded",
]
