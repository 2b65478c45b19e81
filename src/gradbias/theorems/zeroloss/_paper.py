"""What the theorems of this paper have in common."""

import dataclasses

from ...dynamics import Descent, Flow
from ...nets import MLP, Diagonal, FunctionNet
from ...problems import Regression
from .._source import ZEROLOSS
from ..prelude import Paper
from . import _instances_copies as copies

PAPER = Paper(ZEROLOSS)
# Of the point where a flow ends, and of copies of a small loss.
OF_ENDS = dataclasses.replace(
    PAPER, nets=(Diagonal, MLP, FunctionNet), problems=(Regression,), dynamics=(Flow,)
)
OF_COPIES = dataclasses.replace(
    PAPER, nets=(FunctionNet,), dynamics=(Descent,), needs=copies.RECORD
)
# Section 6: diagonal nets, by gradient flow and by label-noise SGD.
DIAGONAL_FLOW = dataclasses.replace(
    PAPER, nets=(Diagonal,), problems=(Regression,), dynamics=(Flow,)
)
DIAGONAL_STEPS = dataclasses.replace(DIAGONAL_FLOW, dynamics=(Descent,))
