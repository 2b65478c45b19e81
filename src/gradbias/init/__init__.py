"""Inits: where parameters start. All return {name: float64 array}, drawn on the host."""

from ._balanced import balanced
from ._constant import constant
from ._imbalanced import imbalanced
from ._orthogonal import orthogonal
from ._perturb import jitter, perturb
from ._random import gaussian, inverse_width, kaiming, xavier

glorot = xavier

__all__ = [
    "balanced",
    "constant",
    "gaussian",
    "glorot",
    "imbalanced",
    "inverse_width",
    "jitter",
    "kaiming",
    "orthogonal",
    "perturb",
    "xavier",
]
