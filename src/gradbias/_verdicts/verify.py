"""Theorems on fresh random instances, with controls that must fail and errata that must show."""

import dataclasses
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias

import numpy as np

from .._engine.setup import Setup
from .._text.table import Table, number
from ..numerics import checks
from ..theorems import (
    Control,
    Erratum,
    Runs,
    Theorem,
    Told,
    difference,
    find,
    measured,
)
from .judge import judge_runs
from .predict import Prediction
from .runs import execute
from .verdict import Verdict, in_a_line

Word = Literal[
    "holds", "refuted", "breaks", "does not break", "shown", "not shown", "inconclusive", "error"
]
BAD = ("refuted", "does not break", "not shown", "error")
# Called with a prediction, the runs it was compared with, and the key of the instance.
Also: TypeAlias = Callable[[Prediction, Runs, int], None]
BREAKS = 10.0  # a control must miss by this many times what an instance is allowed


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What trying one thing has shown.

    Attributes:
        verdict: holds / refuted, breaks / does not break, shown / not shown, inconclusive, or
            error where an exception was raised.
        quantity: the one that decided.
        error: its relative error.
        allowed: up to where it would hold.
        power: of an instance, the smallest relative change of the prediction that it would have
            refuted, for the equality that notices least; where there are bounds only, their
            slack.
        equality: does an equality have that power?
        separation: for a control, its error ÷ the largest of the instances.
        reason: why, where that is not plain.
        traceback: of an exception.
    """

    verdict: Word
    quantity: str = ""
    error: float = float("nan")
    allowed: float = float("nan")
    power: float = float("nan")
    equality: bool = False
    separation: float = float("nan")
    reason: str = ""
    traceback: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(Outcome):
    """One thing that was tried, and what it has shown.

    Attributes:
        theorem: its id.
        what: "instance 0", "control (init is balanced)", "wrong formula (half of it)", "erratum:
            Eq (55)".
        key: the key of the instance.
        seconds: how long it took.
    """

    theorem: str
    what: str
    key: int = 0
    seconds: float = 0.0

    @property
    def command(self) -> str:
        """What repeats this row."""
        return f"gradbias verify {self.theorem} --key {self.key} --instances 1"

    @property
    def bad(self) -> bool:
        """Does it speak against the theorem?"""
        return self.verdict in BAD


class Verification(Table):
    """All rows of a verification."""

    columns = ("theorem", "what", "error", "allowed", "power", "verdict")

    def __init__(self, found: list[Row]):
        self.found = found

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.found)

    @property
    def exit_code(self) -> int:
        """1 if something is refuted or failed, 2 if it is only inconclusive, else 0."""
        if any(row.bad for row in self.found):
            return 1
        return 2 if any(row.verdict == "inconclusive" for row in self.found) else 0

    def rows(self) -> list[tuple[str, ...]]:
        return [cells(row) for row in self.found]

    def notes(self) -> list[str]:
        theorems = {row.theorem for row in self.found}
        bad = [row for row in self.found if row.bad]
        open_ = [row for row in self.found if row.verdict == "inconclusive"]
        lines = [
            f"{len(theorems)} theorems, {len(self.found)} rows: {len(bad)} bad, "
            f"{len(open_)} inconclusive"
        ]
        return lines + [f"{row.theorem} {row.what}: {row.command}" for row in bad + open_]


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    word = row.verdict
    if np.isfinite(row.separation):
        word += f" ({number(row.separation)}× the claim's error)"
    if row.reason:
        word += f": {row.reason}"
    numbers = (row.error, row.allowed, row.power)
    shown = [("" if np.isnan(x) else number(x)) for x in numbers]
    return row.theorem, row.what, *shown, word


def verify(
    only: str | Theorem | Iterable[Theorem] = "*",
    instances: int = 3,
    key: int = 0,
    on_row: Callable[[Row], None] | None = None,
) -> Verification:
    """Try theorems on fresh random instances, break them with their controls, show their errata.

    Args:
        only: a pattern of ids ("rank1.*"), a theorem or several. A pattern leaves out slow ones,
            which take minutes; their own id does not.
        instances: how many of each.
        key: an integer that decides all of them.
        on_row: called with every row as it is finished.

    Returns:
        The rows; `.exit_code` says how it went.
    """
    instances = checks.integer("instances", instances, at_least=1)
    key = checks.integer("key", key)
    found: list[Row] = []
    for theorem in quick(find(only), only):
        for row in rows_of(theorem, instances, key):
            found.append(row)
            if on_row is not None:
                on_row(row)
    return Verification(found)


def quick(theorems: list[Theorem], only: str | Theorem | Iterable[Theorem]) -> list[Theorem]:
    """Without the slow ones, unless one is asked for by name or nothing else is left."""
    named = not isinstance(only, str) or only.endswith(".py")
    left = [t for t in theorems if named or not t.slow or t.id == only]
    return left or theorems


def rows_of(theorem: Theorem, instances: int, key: int, also: Also | None = None) -> Iterator[Row]:
    """The rows of one theorem as they are finished; an exception is a row, too.

    Args:
        theorem: which one.
        instances: how many of its instances.
        key: of the first of them.
        also: what else is done with the runs of each instance.
    """
    known = Instances()
    for i in range(instances):
        yield _row(theorem, f"instance {i}", key + i, lambda k: _instance(theorem, k, known, also))
    for control in theorem.controls:
        what = f"{'wrong formula' if control.formula else 'control'} ({control.breaks})"
        yield _row(theorem, what, key, lambda k, c=control: _control(theorem, c, k, known))
    for erratum in theorem.errata:
        if erratum.evidence is not None:
            what = f"erratum: {erratum.where}"
            yield _row(theorem, what, key, lambda k, e=erratum: _erratum(e, k))


@dataclasses.dataclass
class Instances:
    """What the instances of a theorem have shown so far, by quantity.

    Attributes:
        errors: the largest.
        allowed: the largest that was allowed.
    """

    errors: dict[str, float] = dataclasses.field(default_factory=dict)
    allowed: dict[str, float] = dataclasses.field(default_factory=dict)

    def note(self, verdict: Verdict) -> None:
        """Take the numbers of an instance that holds into account."""
        if verdict.verdict != "holds":
            return
        for largest, value in ((self.errors, verdict.error), (self.allowed, verdict.allowed)):
            largest[verdict.quantity] = max(largest.get(verdict.quantity, 0.0), value)


def _row(theorem: Theorem, what: str, key: int, make: Callable[[int], Outcome]) -> Row:
    began = time.monotonic()
    try:
        outcome = make(key)
    except Exception as error:  # of this row alone: the others are still tried
        outcome = Outcome("error", reason=in_a_line(error), traceback=traceback.format_exc())
    seconds = time.monotonic() - began
    return Row(theorem=theorem.id, what=what, key=key, seconds=seconds, **vars(outcome))


def _instance(theorem: Theorem, key: int, instances: Instances, also: Also | None) -> Outcome:
    setup = theorem.instances(key)
    checked = theorem.check(setup)
    failed = [c for c in checked if not c.met]
    foreign = theorem.foreign(setup)
    if failed or foreign:
        why = str(failed[0]) if failed else f"about other {foreign}"
        return Outcome("inconclusive", reason=f"the instance is not one: {why}")
    runs = execute(theorem.runs_of(setup))
    prediction = Prediction(theorem, setup, checked)
    verdicts = judge_runs(prediction, runs)
    for verdict in verdicts:
        instances.note(verdict)
    if also is not None:
        also(prediction, runs, key)
    decides = max(verdicts, key=_weight)
    return Outcome(
        decides.verdict if decides.verdict != "not applicable" else "inconclusive",
        decides.quantity,
        decides.error,
        decides.allowed,
        least_power(verdicts),
        any(v.verdict == "holds" and not v.bound for v in verdicts),
        reason=decides.reason,
    )


def least_power(verdicts: Iterable[Verdict]) -> float:
    """Of the equality that notices least; of bounds where there is nothing else."""
    held = [v for v in verdicts if v.verdict == "holds"]
    equalities = [v.power for v in held if not v.bound]
    return max(equalities or [v.power for v in held], default=float("nan"))


def _weight(verdict: Verdict) -> tuple[int, float]:
    order = ("holds", "inconclusive", "refuted")
    size = verdict.error / verdict.allowed if verdict.allowed > 0 else 0.0
    return order.index(verdict.verdict), size if np.isfinite(size) else 0.0


def _control(theorem: Theorem, control: Control, key: int, instances: Instances) -> Outcome:
    """A control must miss by ten times all that instances are allowed, step and noise included."""
    setup = control.setup(key)
    excuse = _not_a_control(theorem, control, setup)
    if excuse:
        return Outcome("does not break", reason=excuse)
    runs = execute(theorem.runs_of(setup))
    told = _told(theorem, control, setup, runs)
    seen = theorem.measure_on(runs)
    best: tuple[float, Outcome] | None = None
    for name, claim in told.claims.items():
        value = measured(seen[name])
        # A control need not converge: only chance may excuse it.
        apart = difference(claim, dataclasses.replace(value, error=0.0))
        allowed = max(theorem.limit(name) + apart.own, instances.allowed.get(name, 0.0))
        over = apart.error / allowed if allowed > 0 else np.inf * apart.error
        claimed = instances.errors.get(name, float("nan"))
        separation = apart.error / claimed if claimed > 0 else float("nan")
        word: Word = "breaks" if over > BREAKS else "does not break"
        outcome = Outcome(word, name, apart.error, allowed, separation=separation)
        if np.isfinite(apart.error) and (best is None or over > best[0]):
            best = (over, outcome)
    if best is None:
        return Outcome("inconclusive", reason="its run gave no numbers")
    return best[1]


def _not_a_control(theorem: Theorem, control: Control, setup: Setup) -> str:
    """A control breaks a hypothesis; a wrong formula is tried where all of them are met."""
    broken = [c for c in theorem.check(setup) if not c.met]
    if control.formula:
        return f"the setup is no instance: {broken[0]}" if broken else ""
    if broken or theorem.foreign(setup):
        return ""
    return "no hypothesis refuses its setup, so that gb.check would take it for an instance"


def _told(theorem: Theorem, control: Control, setup: Setup, runs: Runs) -> Told:
    if control.predict is None:
        return theorem.tell(setup, runs)
    return theorem.told_by(control.predict, setup, runs)


def _erratum(erratum: Erratum, key: int) -> Outcome:
    assert erratum.evidence is not None
    evidence = erratum.evidence(key)
    word: Word = "shown" if erratum.shown(evidence) else "not shown"
    numbers = f"printed {number(evidence.printed)}, corrected {number(evidence.corrected)}"
    return Outcome(word, reason=f"{numbers}, both ± {number(evidence.uncertainty)}")
