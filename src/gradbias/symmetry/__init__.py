"""Symmetries and their charges: what gradient flow conserves, and what noise and steps change."""

from ..nets._mixings import general, hyperbolic, pair
from ..nets._symmetries import Symmetry, neurons, rescaling, scaling
from ._check import check, check_all
from ._completeness import Completeness, completeness
from ._detect import Detected, detect
from ._equilibrate import Jump, balance, equilibrate
from ._laws import momentum_step, step
from ._measure import Drift, NoiseBalance, drift, noise_balance
from ._noether import NoetherFlow, noether_flow
from ._tracker import ChargeTracker
from ._weighted import weighted

__all__ = [
    "ChargeTracker",
    "Completeness",
    "Detected",
    "Drift",
    "Jump",
    "NoetherFlow",
    "NoiseBalance",
    "Symmetry",
    "balance",
    "check",
    "check_all",
    "completeness",
    "detect",
    "drift",
    "equilibrate",
    "general",
    "hyperbolic",
    "momentum_step",
    "neurons",
    "noether_flow",
    "noise_balance",
    "pair",
    "rescaling",
    "scaling",
    "step",
    "weighted",
]
