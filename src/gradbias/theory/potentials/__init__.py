"""Potentials: which minimum a mirror flow selects; and how to make an own one."""

from ._base import Potential
from ._depth import DepthPotential, rank1_potential
from ._dual import PotentialLimit
from ._entropy import HyperbolicEntropy, hyperbolic_entropy
from ._spectral import (
    log_det_potential,
    reduced_spectral_potential,
    singular_value_potential,
    spectral_scalar_potential,
)

__all__ = [
    "DepthPotential",
    "HyperbolicEntropy",
    "Potential",
    "PotentialLimit",
    "hyperbolic_entropy",
    "log_det_potential",
    "rank1_potential",
    "reduced_spectral_potential",
    "singular_value_potential",
    "spectral_scalar_potential",
]
