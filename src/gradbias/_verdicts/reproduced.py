"""Is an error a theorem's, or does it come from rounding or from the step?"""

import dataclasses
import math
from collections.abc import Callable

import jax
import numpy as np

from .._engine.setup import Setup, Until
from ..dynamics import Descent
from .predict import Prediction
from .verdict import Verdict

LAST_DIGITS = 4 * np.finfo(np.float64).eps  # by which the second start differs, relative
SAME = 0.03  # of an error: what it may change by, if it is the theorem's
SMALLER = 4  # times: the step of a run that tells whether the error is the step's
FALLEN = 0.5  # of an error: what is left at most of one of order lr

Judging = Callable[[Prediction], list[Verdict]]


def reproduced(verdicts: list[Verdict], prediction: Prediction, judge: Judging) -> list[Verdict]:
    """The verdicts, "refuted" only where the error comes again.

    Steps beyond 2/sharpness, and starts beside a saddle, make rounding grow until two runs that
    are equal on paper differ: an error must come again from a start that differs in its last
    digits. There, too, what a finite step brings is far above what its order tells: where a small
    step is a hypothesis, the error must come again with a smaller one.

    Args:
        verdicts: the verdicts of a theorem.
        prediction: of which they are.
        judge: runs and judges a prediction.
    """
    if not _any_refuted(verdicts):
        return verdicts
    again = judge(dataclasses.replace(prediction, setup=_nudged(prediction.setup)))
    verdicts = _doubted(verdicts, again, _same, _of_rounding)
    smaller = _smaller_step(prediction)
    if smaller is None or not _any_refuted(verdicts):
        return verdicts
    return _doubted(verdicts, judge(smaller), _as_large, _of_the_step)


def _any_refuted(verdicts: list[Verdict]) -> bool:
    return any(verdict.verdict == "refuted" for verdict in verdicts)


def _nudged(setup: Setup) -> Setup:
    """The same start up to rounding; zeros stay zeros, and equal numbers equal."""
    params = jax.tree.map(lambda p: np.asarray(p) * (1 + LAST_DIGITS), setup.params)
    return setup.replace(params=params)


def _smaller_step(prediction: Prediction) -> Prediction | None:
    """The same time in smaller steps, where the theorem is about small ones."""
    setup = prediction.setup
    theorem = prediction.theorem
    moves = setup.dynamics
    if not isinstance(moves, Descent) or moves.noise is not None or callable(moves.lr):
        return None
    if sum(checked.expected_error for checked in prediction.hypotheses) == 0:
        return None
    until = setup.until
    steps = None if until.steps is None else SMALLER * until.steps
    slower = setup.replace(
        dynamics=moves.at_rate(float(moves.lr) / SMALLER),
        until=Until(steps, until.time, until.gap, until.check_every),
        save_at=SMALLER * np.asarray(setup.save_at),
    )
    return Prediction(theorem, slower, theorem.check(slower))


def _doubted(
    verdicts: list[Verdict],
    again: list[Verdict],
    comes_again: Callable[[Verdict, Verdict], bool],
    reason: Callable[[float], str],
) -> list[Verdict]:
    others = {verdict.quantity: verdict for verdict in again}

    def doubted(verdict: Verdict) -> Verdict:
        other = others.get(verdict.quantity)
        if verdict.verdict != "refuted" or (other is not None and comes_again(verdict, other)):
            return verdict
        why = reason(math.nan if other is None else other.error)
        return dataclasses.replace(verdict, verdict="inconclusive", reason=why)

    return [doubted(verdict) for verdict in verdicts]


def _error(verdict: Verdict) -> np.ndarray:
    assert verdict.measured is not None and verdict.predicted is not None
    return np.asarray(np.asarray(verdict.measured) - np.asarray(verdict.predicted))


def _same(one: Verdict, other: Verdict) -> bool:
    first, second = (_error(v) for v in (one, other))
    if first.shape != second.shape:
        return False
    return bool(np.max(np.abs(first - second)) <= SAME * np.max(np.abs(first)))


def _of_rounding(error: float) -> str:
    return (
        "the error is made of rounding: a start that differs in its last digits gives "
        f"{error:.1e}; a smaller step, or a start away from saddles, would decide"
    )


def _as_large(one: Verdict, other: Verdict) -> bool:
    return other.verdict == "refuted" and other.error > FALLEN * one.error


def _of_the_step(error: float) -> str:
    return (
        f"the error is made by the step: one that is {SMALLER} times smaller gives {error:.1e}, "
        "and would decide"
    )
