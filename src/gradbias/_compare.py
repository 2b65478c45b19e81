"""Predictions against a run: the verdicts."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from ._predict import Prediction, Predictions
from ._run import Run
from ._shown import Table, number
from ._status import Ending
from .theorems import Claim, Difference, Measured, Told, difference, measured
from .theorems._theorem import CERTIFIED

Word = Literal["holds", "refuted", "inconclusive", "not applicable"]
BLUNT = 10.0  # a measurement whose own error is this many tolerances decides nothing


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
        return judge_runs(prediction, runs)
    except (ValueError, ArithmeticError, RuntimeError) as error:
        return [undecided(prediction.theorem.id, f"{type(error).__name__}: {error}")]


def _names(run: Run) -> set[str]:
    recorded = set() if run.setup is None else set(run.setup.record)
    return recorded | {str(name) for name in run.data}


def undecided(theorem: str, reason: str) -> Verdict:
    return Verdict(theorem, "", "inconclusive", reason=reason)


def judge_runs(prediction: Prediction, runs: Mapping[str, Any]) -> list[Verdict]:
    """The verdicts of one theorem, given all the runs that it needs."""
    theorem = prediction.theorem
    told = theorem.tell(prediction.setup, runs) if theorem.given else prediction.told
    seen = theorem.measure(runs)
    if set(seen) != set(told.claims):
        raise ValueError(f"{theorem.id} predicts {sorted(told.claims)} but measures {sorted(seen)}")
    verdicts = []
    for name, claim in told.claims.items():
        expected = prediction.expected_error + float(told.expected.get(name, 0.0))
        verdicts.append(_judge(prediction, name, claim, measured(seen[name]), told, expected, runs))
    return verdicts


def _judge(
    prediction: Prediction,
    quantity: str,
    claim: Claim,
    seen: Measured,
    told: Told,
    expected: float,
    runs: Mapping[str, Any],
) -> Verdict:
    theorem = prediction.theorem
    apart = difference(claim, seen)
    margin = theorem.limit(quantity) + expected
    word, reason = _word(apart, margin, told, runs)
    return Verdict(
        theorem.id,
        quantity,
        word,
        claim.value,
        seen.value,
        apart.error,
        margin + apart.own,
        expected,
        reason,
        ", ".join(theorem.given),
    )


def _word(
    apart: Difference, margin: float, told: Told, runs: Mapping[str, Any]
) -> tuple[Word, str]:
    trouble = next((why for run in runs.values() if (why := _trouble(run))), "")
    if not np.isfinite(apart.error):
        return "inconclusive", trouble or "the measurement is not a number"
    if apart.own > BLUNT * margin and apart.error <= apart.own:
        return "inconclusive", trouble or (
            f"the measurement's own error is {number(apart.own)}: a smaller gap in Until, more "
            "time or more members would decide"
        )
    if apart.error <= margin + apart.own:
        return "holds", ""
    if told.residual > CERTIFIED:
        return "inconclusive", f"the prediction's own residual is {number(told.residual)}"
    if trouble:
        return "inconclusive", trouble
    return "refuted", ""


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
