"""What the theorems of this paper have in common."""

from ... import observe
from ...dynamics import Descent
from ...nets import TwoLayer
from ...problems import Population, Regression
from .._source import SPECTRAL
from ..prelude import Paper

PAPER = Paper(
    SPECTRAL,
    nets=(TwoLayer,),
    problems=(Regression, Population),
    needs={"theta": observe.theta, "params": observe.params},
    narrow=True,
)
# Section 4 and Appendix D: label noise, with recorded observables of their own.
OF_NOISE = Paper(
    SPECTRAL, nets=(TwoLayer,), problems=(Regression,), dynamics=(Descent,), narrow=True
)
