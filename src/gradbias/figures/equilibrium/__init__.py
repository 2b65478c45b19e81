"""Ziyin, Wang, Li and Wu (2024): symmetry and noise equilibrium."""

from . import _settings
from ._alignment import TRACES
from ._autoencoder import RATIO, TRACE
from ._circle import CIRCLE
from ._deep import RANDOM, SAME
from ._factorisation import ELEMENT, RESIDUAL
from ._latent import OTHERS, TANH
from ._normalised import NORMALISED
from ._warmup import WARMUP

FIGURES = (
    CIRCLE,
    RESIDUAL,
    ELEMENT,
    TRACES,
    RATIO,
    TRACE,
    WARMUP,
    SAME,
    RANDOM,
    TANH,
    NORMALISED,
    *_settings.FIGURES,
    OTHERS,
)
