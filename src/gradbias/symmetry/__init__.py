"""Symmetries and their charges: what gradient flow conserves, and what noise and steps change."""

from .._generators.mixing import general, hyperbolic, pair
from .._generators.symmetry import Symmetry, neurons, rescaling, scaling
from ._charge_tracker import ChargeTracker
from ._check import check, check_all
from ._completeness import Completeness, completeness
from ._detect import Detected, detect
from ._equilibrate import Jump, balance, equilibrate
from ._geometry import Kept, kept
from ._laws import momentum_step, step
from ._noether import NoetherFlow, noether_flow
from ._noise_balance import Drift, NoiseBalance, drift, noise_balance
from ._weighted import weighted

__all__ = [
    "ChargeTracker",
    "Completeness",
    "Detected",
    "Drift",
    "Jump",
    "Kept",
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
    "kept",
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
