"""Theorems as objects: predicted with, measured, and broken on purpose."""

from ._claims import Claim, Difference, Measured, at_least, at_most, difference, equals, measured
from ._erratum import Erratum, Evidence
from ._hypothesis import Checked, Hypothesis, kind
from ._latex import to_html, to_unicode
from ._per_setup import fact
from ._registry import cite, find, known, register, unregister
from ._shared_measurements import excess, limit
from ._source import Source
from ._theorem import CERTIFIED, Control, Ensemble, Theorem, Told, Undecided

__all__ = [
    "CERTIFIED",
    "Checked",
    "Claim",
    "Control",
    "Difference",
    "Ensemble",
    "Erratum",
    "Evidence",
    "Hypothesis",
    "Measured",
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
