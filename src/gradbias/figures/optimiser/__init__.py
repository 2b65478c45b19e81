"""Optimisers as geometries: charges, what Muon learns first, and where decay ends."""

from ._box import BOX
from ._charges import CHARGES
from ._muon import MUON
from ._noise_floor import NOISE_FLOOR

FIGURES = (CHARGES, MUON, BOX, NOISE_FLOOR)
