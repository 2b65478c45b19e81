"""What the theorems of this paper have in common."""

import dataclasses

from ...nets import TwoLayer
from ...problems import Population, Regression
from .._source import IMBALANCE
from ..prelude import Paper
from . import _instances as cases

PAPER = Paper(
    IMBALANCE, nets=(TwoLayer,), problems=(Regression, Population), needs=cases.RECORD, narrow=True
)
# About data alone, and about the number of hidden units.
OF_DATA = dataclasses.replace(PAPER, problems=(Regression,))
OF_WIDTH = dataclasses.replace(PAPER, needs=(), narrow=False)
