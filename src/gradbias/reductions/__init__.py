"""Exact reductions: a smaller run with the same trajectory, and the way back."""

from ._reduce import Lift, Reduction, reduce

__all__ = ["Lift", "Reduction", "reduce"]
