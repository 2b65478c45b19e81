"""Geometries: a norm, its dual, and the steepest direction that an optimiser takes in it.

Gradient descent is steepest in ℓ2, sign descent (and Adam without memory) in ℓ∞, coordinate
descent in ℓ1, Muon in the spectral norm. Where a geometry is an argument, the class does as well
as an instance: `gb.geometry.Linf` or `gb.geometry.Linf()`.
"""

from ._entries import L1, L2, Linf, Lp
from ._fourier import Fourier
from ._matrices import Nuclear, Spectral
from ._product import Product
from .base import Geometry, GeometryLike, as_geometry

__all__ = [
    "L1",
    "L2",
    "Fourier",
    "Geometry",
    "GeometryLike",
    "Linf",
    "Lp",
    "Nuclear",
    "Product",
    "Spectral",
    "as_geometry",
]
