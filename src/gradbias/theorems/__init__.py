"""Theorems as objects: predicted with, measured, and broken on purpose."""

from ._claims import (
    Claim,
    Difference,
    Measured,
    Predict,
    Told,
    at_least,
    at_most,
    difference,
    equals,
    measured,
)
from ._erratum import ERRORS, KINDS, Erratum, Evidence
from ._hypothesis import Checked, Hypothesis, kind
from ._latex import to_html, to_unicode
from ._paper import Paper
from ._per_setup import fact
from ._registry import cite, find, known, register, unregister
from ._shared_measurements import excess, limit
from ._source import Source
from ._theorem import CERTIFIED, Control, Ensemble, Runs, Theorem, Undecided

__all__ = [
    "CERTIFIED",
    "ERRORS",
    "KINDS",
    "Checked",
    "Claim",
    "Control",
    "Difference",
    "Ensemble",
    "Erratum",
    "Evidence",
    "Hypothesis",
    "Measured",
    "Paper",
    "Predict",
    "Runs",
    "Source",
    "Theorem",
    "Told",
    "Undecided",
    "at_least",
    "at_most",
    "cite",
    "difference",
    "equals",
    "excess",
    "fact",
    "find",
    "kind",
    "known",
    "limit",
    "measured",
    "register",
    "to_html",
    "to_unicode",
    "unregister",
]
