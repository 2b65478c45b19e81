"""What the theorems of this paper have in common."""

from .._source import EQUILIBRIUM
from ..prelude import Paper

PAPER = Paper(EQUILIBRIUM)
