"""Nets: how parameters make a predictor. Parameters are plain dicts with readable names."""

from ._chains import Deep, TwoLayer
from ._diagonal import Diagonal
from ._functions import FunctionNet, general, linear
from ._mlp import MLP
from ._normalised import NormalisedA, NormalisedB
from ._rank1 import Rank1
from .base import ChainNet, LinearNet, Net

__all__ = [
    "MLP",
    "ChainNet",
    "Deep",
    "Diagonal",
    "FunctionNet",
    "LinearNet",
    "Net",
    "NormalisedA",
    "NormalisedB",
    "Rank1",
    "TwoLayer",
    "general",
    "linear",
]
