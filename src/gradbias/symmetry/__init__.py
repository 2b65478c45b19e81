"""Symmetries and their charges: what gradient flow conserves, and what noise and steps change."""

from ..nets._mixings import general, hyperbolic, pair
from ..nets._symmetries import Symmetry, neurons, rescaling, scaling
from ._check import check, check_all
from ._completeness import Completeness, completeness
from ._laws import momentum_step, step
from ._noether import NoetherFlow, noether_flow
from ._tracker import ChargeTracker

__all__ = [
    "ChargeTracker",
    "Completeness",
    "NoetherFlow",
    "Symmetry",
    "check",
    "check_all",
    "completeness",
    "general",
    "hyperbolic",
    "momentum_step",
    "neurons",
    "noether_flow",
    "pair",
    "rescaling",
    "scaling",
    "step",
]
