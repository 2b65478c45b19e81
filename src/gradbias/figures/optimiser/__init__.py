"""Optimisers as geometries: charges, what Muon learns first, and where decay ends."""

from ._box import BOX
from ._charges import CHARGES
from ._muon import MUON

FIGURES = (CHARGES, MUON, BOX)
