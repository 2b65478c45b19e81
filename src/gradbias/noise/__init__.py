"""Noise: where the randomness of a step comes from."""

from ._base import Noise
from ._replay import Replay

__all__ = ["Noise", "Replay"]
