"""The papers' figures, re-run and drawn, with what must be seen in each."""

from ._figure import Figure, Seen, Settings
from ._lab import Lab
from ._make import Made, make
from ._registry import find, known

__all__ = ["Figure", "Lab", "Made", "Seen", "Settings", "find", "known", "make"]
