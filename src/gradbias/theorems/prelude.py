"""What a file of theorems imports: one line instead of eight."""

from .._engine.run import Run
from .._engine.setup import Setup, Until
from . import _shared_hypotheses as common
from ._claims import (
    SIGMAS,
    Claim,
    Claims,
    Measure,
    Measured,
    Measurements,
    Predict,
    Told,
    at_least,
    at_most,
    equals,
    measured,
)
from ._erratum import Erratum, Evidence
from ._hypothesis import Hypothesis, kind
from ._paper import Paper
from ._per_setup import fact
from ._shared_measurements import excess, gap_asked, limit, setup_of
from ._theorem import Control, Ensemble, Runs, Theorem, Undecided

__all__ = [
    "SIGMAS",
    "Claim",
    "Claims",
    "Control",
    "Ensemble",
    "Erratum",
    "Evidence",
    "Hypothesis",
    "Measure",
    "Measured",
    "Measurements",
    "Paper",
    "Predict",
    "Run",
    "Runs",
    "Setup",
    "Theorem",
    "Told",
    "Undecided",
    "Until",
    "at_least",
    "at_most",
    "common",
    "equals",
    "excess",
    "fact",
    "gap_asked",
    "kind",
    "limit",
    "measured",
    "setup_of",
]
