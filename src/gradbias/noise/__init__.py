"""Noise: where the randomness of a step comes from, and the covariance that it makes.

An own law is a subclass of `DataNoise` with two methods, `draw` and `moments`. Draw with the
functions below, not with jax.random: they are a hundred times cheaper inside a loop, and the same
in NumPy and in jax.
"""

from ..numerics.counter_rng import fold, integers, normal, sign, subset, uniform
from ._base import Noise
from ._data import DataNoise
from ._isotropic import Isotropic
from ._label_noise import LabelNoise
from ._minibatch import Minibatch
from ._parameter import ParameterNoise
from ._replay import Replay
from ._spread import FreshSpread, SampleSpread, Spread

__all__ = [
    "DataNoise",
    "FreshSpread",
    "Isotropic",
    "LabelNoise",
    "Minibatch",
    "Noise",
    "ParameterNoise",
    "Replay",
    "SampleSpread",
    "Spread",
    "fold",
    "integers",
    "normal",
    "sign",
    "subset",
    "uniform",
]
