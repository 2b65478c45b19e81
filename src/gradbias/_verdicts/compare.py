"""Predictions against a run: the verdicts."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from .._engine.run import Run
from .._engine.status import Ending
from .._text.table import Table, number
from ..dynamics import Flow
from ..theorems import (
    CERTIFIED,
    Checked,
    Claim,
    Difference,
    Measured,
    Told,
    Undecided,
    difference,
    measured,
)
from .predict import Prediction, Predictions
from .reached_rows import WITHOUT_END, of_same_saves, reached
from .remaining_distance import carried_on

Word = Literal["holds", "refuted", "inconclusive", "not applicable"]
BLUNT = 10.0  # a measurement whose own error is this many tolerances decides nothing
TELLS = 0.01  # nor one whose own error is more than this, where the tolerance is tighter
REFUTES = (
    10.0  # an error must be this many times what is allowed before it speaks against a theorem
)
ADDED_UP = 10.0  # times the tolerance of one step of a flow: what all its steps may come to
SECOND_ORDER = 3.0  # times what is left to the limit to first order


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """One quantity of one theorem, predicted and measured.

    Attributes:
        theorem: its id.
        quantity: the name of what was compared; empty if it did not come to that.
        verdict: "holds", "refuted", "inconclusive" or "not applicable".
        predicted: the predicted value.
        measured: what the run shows.
        error: the distance, relative.
        allowed: the error up to which it holds: tolerance, expected error of the graded
            hypotheses and the measurement's own.
        expected: the part of it that the graded hypotheses bring.
        reason: for what is not "holds": why, and what to do.
        given: what the prediction took from the run.
    """

    theorem: str
    quantity: str
    verdict: Word
    predicted: Any = None
    measured: Any = None
    error: float = float("nan")
    allowed: float = float("nan")
    expected: float = 0.0
    reason: str = ""
    given: str = ""


class Verdicts(Table):
    """The verdicts of one comparison: a sequence, and a table to read."""

    columns = ("theorem", "quantity", "error", "allowed", "verdict")

    def __init__(self, verdicts: list[Verdict]):
        self.verdicts = verdicts

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __getitem__(self, which: int | str) -> Verdict:
        """By position, or the worst of a theorem by its id."""
        if isinstance(which, int):
            return self.verdicts[which]
        found = [v for v in self.verdicts if v.theorem == which]
        if not found:
            raise KeyError(which)
        return max(found, key=lambda v: _ORDER.index(v.verdict))

    @property
    def counts(self) -> dict[str, int]:
        """How many of each."""
        return dict(Counter(v.verdict for v in self.verdicts))

    def rows(self) -> list[tuple[str, ...]]:
        return [
            (v.theorem, v.quantity, _shown(v.error), _shown(v.allowed), _sentence(v))
            for v in self.verdicts
            if v.verdict != "not applicable"
        ]

    def notes(self) -> list[str]:
        apart = [v for v in self.verdicts if v.verdict == "not applicable"]
        return [f"{v.theorem} is not applicable: {v.reason}" for v in apart]

    def to_xarray(self) -> Any:
        """The numbers as an xarray.Dataset over `row`."""
        import xarray as xr

        names = ("theorem", "quantity", "verdict", "error", "allowed", "expected", "reason")
        columns = {n: ("row", [getattr(v, n) for v in self.verdicts]) for n in names}
        return xr.Dataset(columns)


_ORDER = ("not applicable", "holds", "inconclusive", "refuted")


def _shown(value: float) -> str:
    return "" if np.isnan(value) else number(value)


def _sentence(verdict: Verdict) -> str:
    extra = [verdict.reason] if verdict.reason else []
    if verdict.given:
        extra.append(f"given {verdict.given} of the run")
    if verdict.expected and verdict.verdict == "holds":
        extra.append(f"expected ≤ {verdict.expected:.1e}")
    return verdict.verdict + (f" ({'; '.join(extra)})" if extra else "")


def compare(run: Run, predictions: Predictions | Prediction | Iterable[Prediction]) -> Verdicts:
    """Set what a run shows against what was predicted.

    Args:
        run: the result of `simulate` on the setup of the predictions.
        predictions: what `predict` returned, or some of it.

    Returns:
        A verdict for every quantity.
    """
    if not isinstance(run, Run):
        raise ValueError(f"run must be a gb.Run, got {type(run).__name__}")
    some = [predictions] if isinstance(predictions, Prediction) else list(predictions)
    verdicts = [verdict for prediction in some for verdict in _of_one_run(run, prediction)]
    if isinstance(predictions, Predictions):
        verdicts += [
            Verdict(theorem.id, "", "not applicable", reason=str(failed))
            for theorem, failed in predictions.near_misses
        ]
    return Verdicts(verdicts)


def _of_one_run(run: Run, prediction: Prediction) -> list[Verdict]:
    theorem = prediction.theorem
    if theorem.runs is not None:
        return [undecided(theorem.id, "it needs runs of its own: gb.check(setup) makes them")]
    missing = [name for name in theorem.observables if name not in _names(run)]
    if missing:
        return [
            undecided(
                theorem.id,
                f"the run lacks {', '.join(missing)}: add it to Setup(record=…), or use "
                "gb.check(setup)",
            )
        ]
    return judged(prediction, {"run": run})


def judged(prediction: Prediction, runs: Mapping[str, Any]) -> list[Verdict]:
    """The verdicts; one theorem that cannot be told or measured here must not hide the others."""
    try:
        return judge_runs(prediction, runs, strict=False)
    except Undecided as why:
        return [undecided(prediction.theorem.id, str(why))]
    except Exception as error:  # whatever it is, it is this theorem's alone
        without_end = next((run for run in runs.values() if _without_end(run)), None)
        if without_end is not None:  # its state is not a number: no wonder
            return [undecided(prediction.theorem.id, _trouble(without_end))]
        return [failed(prediction.theorem.id, error)]


def failed(theorem: str, error: Exception) -> Verdict:
    """A theorem that could not be told, run or measured."""
    first = (str(error).strip() or "no message").split("\n")[0]
    return undecided(theorem, f"{type(error).__name__}: {first}")


def _names(run: Run) -> set[str]:
    recorded = set() if run.setup is None else set(run.setup.record)
    return recorded | {str(name) for name in run.data}


def undecided(theorem: str, reason: str) -> Verdict:
    return Verdict(theorem, "", "inconclusive", reason=reason)


def judge_runs(
    prediction: Prediction, runs: Mapping[str, Any], strict: bool = True
) -> list[Verdict]:
    """The verdicts of one theorem, given all the runs that it needs.

    Args:
        prediction: of the theorem.
        runs: what it asked for.
        strict: of instances that the theorem has chosen itself: whatever is above what it allows
            is "refuted". Otherwise, as for anybody's setup, the measurement of a limit carries
            what is left to it as its error, and "refuted" needs ten times what is allowed.
    """
    return Judge(prediction, reached(runs), strict).verdicts()


class Judge:
    """One theorem and the runs that decide about it.

    Args:
        prediction: of the theorem.
        runs: what it asked for, up to where they stopped.
        strict: as in `judge_runs`.
    """

    def __init__(self, prediction: Prediction, runs: Mapping[str, Any], strict: bool):
        self.prediction, self.runs, self.strict = prediction, runs, strict
        self.theorem = prediction.theorem
        self.setup = of_same_saves(prediction.setup, runs)
        self.hypotheses = self._hypotheses()
        self.told = self._tell(runs)
        self.seen = self._measure(runs)
        if set(self.seen) != set(self.told.claims):
            raise ValueError(
                f"{self.theorem.id} predicts {sorted(self.told.claims)} but measures "
                f"{sorted(self.seen)}"
            )

    def verdicts(self) -> list[Verdict]:
        return [self._verdict(name, claim) for name, claim in self.told.claims.items()]

    def _hypotheses(self) -> list[Checked]:
        """What graded ones bring is relative to all saves together: fewer saves, another error."""
        found = self.prediction.hypotheses
        if self.setup is self.prediction.setup:
            return found
        return [c.hypothesis.check(self.setup) if c.hypothesis.graded else c for c in found]

    def _tell(self, runs: Mapping[str, Any]) -> Told:
        if self.theorem.given:
            return self.theorem.tell(self.setup, runs)
        same = self.setup is self.prediction.setup
        return self.prediction.told if same else self.theorem.tell(self.setup)

    def _measure(self, runs: Mapping[str, Any]) -> dict[str, Measured]:
        return {name: measured(value) for name, value in self.theorem.measure(runs).items()}

    def _verdict(self, name: str, claim: Claim) -> Verdict:
        seen, told = self.seen[name], self.told
        expected = sum(checked.expected_error for checked in self.hypotheses)
        expected += float(told.expected.get(name, 0.0))
        margin = self.theorem.limit(name) + expected
        margin += 0.0 if self.strict else max(map(_integration, self.runs.values()), default=0.0)
        apart = difference(claim, seen)
        if not self.strict and not apart.error <= margin + apart.own:
            seen = dataclasses.replace(seen, error=seen.error + self._left(name))
            apart = difference(claim, seen)
        word, reason = self._word(apart, margin)
        return Verdict(
            self.theorem.id,
            name,
            word,
            claim.value,
            seen.value,
            apart.error,
            margin + apart.own,
            expected,
            reason,
            ", ".join(self.theorem.given),
        )

    def _left(self, name: str) -> np.ndarray | float:
        """What would still change, measured and predicted, on the way to the limit."""
        if self._at_limit is None:
            return 0.0
        told, seen, close = self._at_limit
        now = self.seen[name].value - self.told.claims[name].value
        then = seen[name].value - told.claims[name].value
        if now.shape != then.shape:
            return 0.0
        moved = np.abs(then - now)
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

    def _word(self, apart: Difference, margin: float) -> tuple[Word, str]:
        trouble = next((why for run in self.runs.values() if (why := _trouble(run))), "")
        if not np.isfinite(apart.error) or np.isnan(apart.own):
            return "inconclusive", trouble or "the measurement is not a number"
        if np.isnan(margin):
            return "inconclusive", trouble or "what is allowed is not a number"
        if apart.own > self._blunt(margin) and apart.error <= apart.own:
            return "inconclusive", trouble or _too_blunt(apart.own)
        if apart.error <= margin + apart.own:
            return "holds", ""
        broken = next((checked for checked in self.hypotheses if not checked.met), None)
        if broken is not None:
            return "inconclusive", f"at the saves that the run reached it is {broken}"
        if self.told.residual > CERTIFIED:
            return "inconclusive", f"the prediction's own residual is {number(self.told.residual)}"
        if trouble:
            return "inconclusive", trouble
        times = apart.error / (margin + apart.own) if margin + apart.own > 0 else np.inf
        if not self.strict and times <= REFUTES:
            return "inconclusive", (
                f"the error is {number(times)} times what is allowed, and only {REFUTES:g} times "
                "would speak against it: a smaller gap in Until, smaller rtol and atol in Flow, or "
                "a smaller step would decide"
            )
        return "refuted", ""

    def _blunt(self, margin: float) -> float:
        return BLUNT * margin if self.strict else max(BLUNT * margin, TELLS)


def _integration(run: Any) -> float:
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


def _without_end(run: Any) -> bool:
    return isinstance(run, Run) and run.status.ending in WITHOUT_END


def _trouble(run: Any) -> str:
    """Why a run decides nothing against a theorem; empty if it does."""
    if not isinstance(run, Run):
        return ""
    ending = run.status.ending
    if ending in (Ending.CONVERGED, Ending.CONVERGED_TO_TOLERANCE):
        return ""
    if ending in (Ending.REACHED_STEPS, Ending.REACHED_TIME) and not run.status.asked:
        return ""
    return f"the run ended as `{run.status}`: {run.status.sentence.split('.')[0]}"
