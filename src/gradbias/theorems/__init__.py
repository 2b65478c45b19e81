"""Theorems as objects: predicted with, measured, and broken on purpose."""

from ._erratum import Erratum, Evidence
from ._facts import fact
from ._hypothesis import Checked, Hypothesis, kind
from ._measure import excess, limit
from ._quantity import Claim, Difference, Measured, at_least, at_most, difference, equals, measured
from ._registry import cite, find, known, register, unregister
from ._source import Source
from ._text import to_html, to_unicode
from ._theorem import Control, Ensemble, Theorem, Told, Undecided

__all__ = [
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
