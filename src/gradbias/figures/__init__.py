"""The papers' figures, re-run and drawn, with what must be seen in each."""

from ._figure import Check, Figure, Settings
from ._lab import Lab
from ._make import Made, make
from ._registry import find, known

__all__ = ["Check", "Figure", "Lab", "Made", "Settings", "find", "known", "make"]
