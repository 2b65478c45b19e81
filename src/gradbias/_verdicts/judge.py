"""One theorem and the runs that decide about it."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from .._engine.run import Run
from .._text.table import number
from ..dynamics import Flow
from ..theorems import (
    CERTIFIED,
    Checked,
    Difference,
    Ensemble,
    Measured,
    Told,
    Undecided,
    difference,
    measured,
)
from .cap import too_large
from .ended import EndReads, broken_off, trouble
from .power import power
from .predict import Prediction
from .reached_rows import WITHOUT_END, of_same_saves, reached
from .remaining_distance import carried_on
from .verdict import Verdict, Word, failed, undecided

BLUNT = 10.0  # a measurement whose own error is this many tolerances decides nothing
TELLS = 0.01  # nor one whose own error is more than this, where the tolerance is tighter
REFUTES = 10.0  # times what is allowed: an error below it does not speak against a theorem
ADDED_UP = 10.0  # times the tolerance of one step of a flow: what all its steps may come to
SECOND_ORDER = 3.0  # times what is left to the limit to first order
NO_POWER = 1.0  # an equality that allows a change of its own size says nothing


def judged(prediction: Prediction, runs: Mapping[str, Any]) -> list[Verdict]:
    """The verdicts; one theorem that cannot be told or measured here must not hide the others."""
    try:
        return judge_runs(prediction, runs, strict=False)
    except Undecided as why:
        return [undecided(prediction.theorem.id, str(why))]
    except Exception as error:  # whatever it is, it is this theorem's alone
        why = _first(trouble(run) for run in _known(runs) if _without_end(run))
        if why:  # its state is not a number: no wonder
            return [undecided(prediction.theorem.id, why)]
        return [failed(prediction.theorem.id, error)]


def judge_runs(
    prediction: Prediction, runs: Mapping[str, Any], strict: bool = True
) -> list[Verdict]:
    """The verdicts of one theorem, given all the runs that it needs; see `Judge`."""
    return Judge(prediction, runs, strict).verdicts()


class Judge:
    """One theorem and the runs that decide about it.

    Args:
        prediction: of the theorem.
        runs: what it asked for.
        strict: of instances that the theorem has chosen itself: whatever is above what it allows
            is "refuted". Otherwise, as for anybody's setup, the measurement of a limit carries
            what is left to it as its error, and "refuted" needs ten times what is allowed.

    Attributes:
        setup: with the saves that the runs have reached.
        runs: up to where they stopped.
        told: what is predicted.
        seen: what was measured.
        at_the_end: does the measurement look at where a run ended?
    """

    def __init__(self, prediction: Prediction, runs: Mapping[str, Any], strict: bool):
        self.prediction = prediction
        self.runs = reached(runs)
        self.strict = strict
        self.theorem = prediction.theorem
        self.setup = of_same_saves(prediction.setup, self.runs)
        self.hypotheses = self._hypotheses()
        self.told = self._tell(self.runs)
        reads = EndReads()
        self.seen = self._measure(reads.watched(self.runs))
        self.at_the_end = reads.any
        if set(self.seen) != set(self.told.claims):
            raise ValueError(
                f"{self.theorem.id} predicts {sorted(self.told.claims)} but measures "
                f"{sorted(self.seen)}"
            )

    def verdicts(self) -> list[Verdict]:
        """One for every quantity."""
        return [self.verdict(name) for name in self.told.claims]

    def verdict(self, name: str) -> Verdict:
        """Of one quantity."""
        claim = self.told.claims[name]
        margin = self.margin(name)
        apart = self._difference(name, self.seen[name], margin)
        word, reason = self._word(name, apart, margin)
        strength = math.nan
        if word == "holds":
            strength = self.power(name)
            if not strength < NO_POWER and claim.relation == "=":
                word = "inconclusive"
                reason = "no change of the prediction by less than its own size would be noticed"
        return Verdict(
            self.theorem.id,
            name,
            word,
            claim.value,
            self.seen[name].value,
            apart.error,
            margin + apart.own,
            self.expected(name),
            strength,
            claim.relation != "=",
            reason,
            ", ".join(self.theorem.given),
        )

    def expected(self, name: str) -> float:
        """The relative error that graded hypotheses, and the prediction itself, allow."""
        graded = sum(checked.expected_error for checked in self.hypotheses)
        return graded + float(self.told.expected.get(name, 0.0))

    def margin(self, name: str) -> float:
        """What is allowed beside the measurement's own error."""
        margin = self.theorem.limit(name) + self.expected(name)
        return margin if self.strict else margin + max(map(_integration, self._runs), default=0.0)

    def power(self, name: str) -> float:
        """The smallest relative change of the prediction that these runs would have refuted."""
        claim = self.told.claims[name]
        if self.strict:
            return power(claim, self.seen[name], self.margin(name))
        return power(claim, self._with_rest(name), self.margin(name), REFUTES)

    @property
    def _runs(self) -> list[Run | xr.Dataset]:
        return _known(self.runs)

    def _hypotheses(self) -> list[Checked]:
        """What graded ones bring is relative to all saves together: fewer saves, another error."""
        before = self.prediction.hypotheses
        if self.setup is self.prediction.setup:
            return before
        return [c.hypothesis.check(self.setup) if c.hypothesis.graded else c for c in before]

    def _tell(self, runs: Mapping[str, Any]) -> Told:
        if self.theorem.given:
            return self.theorem.tell(self.setup, runs)
        same = self.setup is self.prediction.setup
        return self.prediction.told if same else self.theorem.tell(self.setup)

    def _measure(self, runs: Mapping[str, Any]) -> dict[str, Measured]:
        return {name: measured(value) for name, value in self.theorem.measure_on(runs).items()}

    def _difference(self, name: str, seen: Measured, margin: float) -> Difference:
        """How far apart; where that is more than is allowed, with what is left to the limit."""
        apart = difference(self.told.claims[name], seen)
        if self.strict or apart.error <= margin + apart.own:
            return apart
        return difference(self.told.claims[name], self._with_rest(name))

    def _with_rest(self, name: str) -> Measured:
        """What was measured, with what is left to the limit as its error."""
        seen = self.seen[name]
        return dataclasses.replace(seen, error=seen.error + self._left(name))

    def _left(self, name: str) -> np.ndarray | float:
        """What would still change, measured and predicted, on the way to the limit."""
        if self._at_limit is None:
            return 0.0
        told, seen, close = self._at_limit
        values = [self.seen[name].value, seen[name].value]
        claims = [self.told.claims[name].value, told.claims[name].value]
        if len({array.size for array in (*values, *claims)}) != 1:
            return 0.0
        # One output is a vector or a matrix of one column.
        with np.errstate(invalid="ignore"):  # bounds may be infinite somewhere
            now, then = (v - c.reshape(v.shape) for v, c in zip(values, claims, strict=True))
            moved = np.nan_to_num(np.abs(then.reshape(now.shape) - now), nan=0.0, posinf=np.inf)
        if not close:  # nothing is known of the limit, and all that depends on it
            return np.where(moved > 0, np.inf, 0.0)
        return SECOND_ORDER * moved

    @functools.cached_property
    def _at_limit(self) -> tuple[Told, dict[str, Measured], bool] | None:
        """What is predicted and measured of the runs at their limits, and were they close?"""
        ends = {n: carried_on(run) for n, run in self.runs.items() if isinstance(run, Run)}
        moved = {name: end.run for name, end in ends.items() if end is not None}
        if not moved:
            return None
        runs = {**self.runs, **moved}
        told = self._tell(runs) if self.theorem.given else self.told
        return told, self._measure(runs), all(e.close for e in ends.values() if e is not None)

    def _word(self, name: str, apart: Difference, margin: float) -> tuple[Word, str]:
        """Does it hold? First whether these runs can tell, then what they say."""
        why = self._cannot_tell(name, apart, margin)
        if why:
            return "inconclusive", why
        if apart.error <= margin + apart.own:
            return "holds", ""
        # A run that has not come to its end may still be on its way to what is predicted.
        why = self._trouble
        if why:
            return "inconclusive", why
        times = apart.error / (margin + apart.own) if margin + apart.own > 0 else np.inf
        if not self.strict and times <= REFUTES:
            return "inconclusive", (
                f"the error is {number(times)} times what is allowed, and only {REFUTES:g} times "
                "would speak against it: a smaller gap in Until, smaller rtol and atol in Flow, or "
                "a smaller step would decide"
            )
        return "refuted", ""

    def _cannot_tell(self, name: str, apart: Difference, margin: float) -> str:
        """Why these runs decide nothing, for the prediction or against it; empty if they may."""
        why = _first(broken_off(run) for run in self._runs)
        why = why or (self._trouble if self.at_the_end else "") or self._no_numbers(name)
        if why:
            return why
        if not np.isfinite(apart.error) or np.isnan(apart.own):
            return self._trouble or "the measurement is not a number"
        if np.isnan(margin):
            return self._trouble or "what is allowed is not a number"
        broken = next((checked for checked in self.hypotheses if not checked.met), None)
        if broken is not None:
            return f"at the saves that the run reached it is {broken}"
        if not self.told.residual <= CERTIFIED:
            return f"the prediction's own residual is {number(self.told.residual)}"
        if apart.own > self._blunt(margin) and apart.error <= apart.own:
            return self._trouble or _too_blunt(apart.own)
        expected = self.expected(name)
        if expected > self.theorem.cap:
            return too_large(self.hypotheses, self.setup, expected, self.theorem.cap)
        return ""

    @functools.cached_property
    def _trouble(self) -> str:
        """Why a run, or a member of an ensemble, has not come to its end."""
        return _first(trouble(run, self._asked(name)) for name, run in self.runs.items())

    def _asked(self, name: str) -> bool:
        """Did the members of an ensemble have a gap to reach?"""
        wanted = self.theorem.runs_of(self.setup)[name]
        if not isinstance(wanted, Ensemble):
            return False
        first = wanted.build(**{axis: next(iter(values)) for axis, values in wanted.over.items()})
        return first.until.gap is not None

    def _no_numbers(self, name: str) -> str:
        """Is something empty or infinite compared?"""
        claim = self.told.claims[name]
        if not claim.value.size:
            return "nothing was compared: the quantity is empty"
        finite = np.isfinite(claim.value)
        if claim.relation == "=" and not finite.all():
            return "the prediction is not finite"
        if np.isnan(claim.value).any() or not finite.any():
            return "the bound is not finite"
        if claim.scale is not None and not np.isfinite(claim.scale).all():
            return "the scale of its errors is not finite"
        return ""

    def _blunt(self, margin: float) -> float:
        return BLUNT * margin if self.strict else max(BLUNT * margin, TELLS)


def _first(reasons: Iterable[str]) -> str:
    return next((why for why in reasons if why), "")


def _known(runs: Mapping[str, Any]) -> list[Run | xr.Dataset]:
    return [run for run in runs.values() if isinstance(run, Run | xr.Dataset)]


def _integration(run: Run | xr.Dataset) -> float:
    """The relative error that a flow's own tolerance leaves in what it keeps or computes."""
    dynamics = None if not isinstance(run, Run) or run.setup is None else run.setup.dynamics
    return ADDED_UP * float(dynamics.rtol) if isinstance(dynamics, Flow) else 0.0


def _too_blunt(own: float) -> str:
    if not np.isfinite(own):
        return (
            "the run is not close to its limit: a smaller gap in Until, more steps or more time "
            "would decide"
        )
    return (
        f"the measurement's own error is {number(own)}: a smaller gap in Until, more time or more "
        "members would decide"
    )


def _without_end(run: Run | xr.Dataset) -> bool:
    return isinstance(run, Run) and run.status.ending in WITHOUT_END
