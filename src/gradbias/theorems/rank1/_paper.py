"""What the theorems of this paper have in common."""

import dataclasses

from ...dynamics import Descent, Flow
from ...nets import Rank1
from ...problems import Regression
from .._source import RANK1
from ..prelude import Paper
from . import _instances as cases

PAPER = Paper(RANK1, problems=(Regression,))
# Of nets of any depth under gradient flow, and under steps that nearly follow it.
FLOW_AND_STEPS = dataclasses.replace(PAPER, dynamics=(Flow, Descent))
RANK1_FLOW = dataclasses.replace(PAPER, nets=(Rank1,), dynamics=(Flow,))
RANK1_STEPS = dataclasses.replace(PAPER, nets=(Rank1,), dynamics=(Descent,))
# What is said of coefficients along a path of a rank-1 net.
OF_PATHS = dataclasses.replace(PAPER, nets=(Rank1,), needs=cases.RECORD)
