"""The power of a verdict: the smallest change of the prediction that would be refuted."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..theorems import Claim, Measured, difference

DIGITS = 60  # bisections of the exponent: more than a float has digits
LEAST = 1e-16
MOST = 1e3  # changes above this are not tried: an equality that allows it says nothing

Change = Callable[[Claim, float], Claim]


def power(claim: Claim, measured: Measured, margin: float, times: float = 1.0) -> float:
    """The smallest relative change of a claim that would have been refuted.

    An equality is changed by a factor of 1 + p and of 1 − p, and both must be refuted; one that
    predicts 0, or what beside its scale is 0 to within what is allowed, is moved by p of its scale
    to either side. A bound is tightened by p: its power is its slack.

    Args:
        claim: what is predicted.
        measured: what the runs show.
        margin: the error that is allowed beside the measurement's own.
        times: how many times what is allowed an error must be to refute.

    Returns:
        p; infinite if no change would have been noticed.
    """
    if not np.isfinite(margin):
        return math.inf
    return max(_least(change, claim, measured, margin, times) for change in _changes(claim, margin))


def refuted(claim: Claim, measured: Measured, margin: float, times: float = 1.0) -> bool:
    """Is this claim further from what the runs show than is allowed?"""
    apart = difference(claim, measured)
    return bool(apart.error > times * (margin + apart.own))


def scaled(claim: Claim, factor: float) -> Claim:
    """The claim with its value times a factor."""
    return dataclasses.replace(claim, value=np.asarray(claim.value * factor))


def tightened(claim: Claim, p: float) -> Claim:
    """A bound that asks for p of its own size more; where it is infinite it stays so."""
    sign = -1.0 if claim.relation == "<=" else 1.0
    size = np.where(np.isfinite(claim.value), np.abs(claim.value), 0.0)
    return dataclasses.replace(claim, value=np.asarray(claim.value + sign * p * size))


def moved(claim: Claim, p: float) -> Claim:
    """A claim of 0, moved by p of the scale that its errors are divided by."""
    scale = np.broadcast_to(1.0 if claim.scale is None else claim.scale, claim.value.shape)
    return dataclasses.replace(claim, value=np.asarray(claim.value + p * scale))


def _changes(claim: Claim, margin: float) -> list[Change]:
    if not claim.value.any() or (claim.relation == "=" and _is_nothing(claim, margin)):
        # A bound of 0 is moved as an equality is, but only to the side where it asks for more.
        sides = {"=": (1.0, -1.0), "<=": (-1.0,), ">=": (1.0,)}[claim.relation]
        return [lambda c, p, side=side: moved(c, side * p) for side in sides]
    if claim.relation != "=":
        return [tightened]
    return [lambda c, p: scaled(c, 1 + p), lambda c, p: scaled(c, 1 - p)]


def _is_nothing(claim: Claim, margin: float) -> bool:
    return claim.scale is not None and bool(np.all(np.abs(claim.value) <= margin * claim.scale))


def _least(change: Change, claim: Claim, measured: Measured, margin: float, times: float) -> float:
    """By bisection: what is further away than a refuted change is refuted, too."""

    def is_refuted(exponent: float) -> bool:
        with np.errstate(all="ignore"):
            return refuted(change(claim, 10.0**exponent), measured, margin, times)

    low = math.log10(LEAST)
    high = math.log10(MOST)
    if not is_refuted(high):
        return math.inf
    if is_refuted(low):
        return LEAST
    for _ in range(DIGITS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return 10.0**high
