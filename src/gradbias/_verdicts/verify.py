"""Theorems on fresh random instances, with controls that must fail and errata that must show."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np

from .._text.table import Table, number
from ..numerics import checks
from ..theorems import Control, Erratum, Theorem, Told, difference, find, measured
from .compare import Verdict, judge_runs
from .predict import Prediction
from .runs import execute

Word = Literal["holds", "refuted", "breaks", "does not break", "shown", "not shown", "inconclusive"]
BAD = ("refuted", "does not break", "not shown")
BREAKS = 10.0  # a control must miss by this many tolerances


@dataclasses.dataclass(frozen=True)
class Row:
    """One thing that was tried.

    Attributes:
        theorem: its id.
        what: "instance 0", "control (init is balanced)", "erratum: Eq (55)".
        verdict: holds / refuted, breaks / does not break, shown / not shown, or inconclusive.
        quantity: the one that decided.
        error: its relative error.
        allowed: up to where it would hold.
        separation: for a control, its error ÷ the largest of the instances.
        key: the key of the instance.
        seconds: how long it took.
        reason: why, where that is not plain.
    """

    theorem: str
    what: str
    verdict: Word
    quantity: str = ""
    error: float = float("nan")
    allowed: float = float("nan")
    separation: float = float("nan")
    key: int = 0
    seconds: float = 0.0
    reason: str = ""

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

    columns = ("theorem", "what", "error", "allowed", "verdict")

    def __init__(self, found: list[Row]):
        self.found = found

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.found)

    @property
    def exit_code(self) -> int:
        """1 if something is refuted, 2 if something is only inconclusive, else 0."""
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
    shown = [("" if np.isnan(x) else number(x)) for x in (row.error, row.allowed)]
    return row.theorem, row.what, *shown, word


def verify(
    what: str | Theorem | Iterable[Theorem] = "*",
    instances: int = 3,
    key: int = 0,
    on_row: Callable[[Row], None] | None = None,
) -> Verification:
    """Try theorems on fresh random instances, break them with their controls, show their errata.

    Args:
        what: a pattern of ids ("rank1.*"), a theorem or several. A pattern leaves out slow ones,
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
    for theorem in quick(find(what), what):
        for row in rows_of(theorem, instances, key):
            found.append(row)
            if on_row is not None:
                on_row(row)
    return Verification(found)


def quick(theorems: list[Theorem], what: Any) -> list[Theorem]:
    """Without the slow ones, unless one is asked for by name or nothing else is left."""
    named = not isinstance(what, str) or what.endswith(".py")
    left = [t for t in theorems if named or not t.slow or t.id == what]
    return left or theorems


def rows_of(theorem: Theorem, instances: int, key: int) -> Iterator[Row]:
    """The rows of one theorem as they are finished."""
    worst: dict[str, float] = {}
    for i in range(instances):
        yield _timed(lambda key, i=i: _instance(theorem, i, key, worst), key + i)
    for control in theorem.controls:
        yield _timed(lambda key, c=control: _control(theorem, c, key, worst), key)
    for erratum in theorem.errata:
        if erratum.evidence is not None:
            yield _timed(lambda key, e=erratum: _erratum(theorem, e, key), key)


def _timed(make: Callable[[int], Row], key: int) -> Row:
    began = time.monotonic()
    row = make(key)
    return dataclasses.replace(row, key=key, seconds=time.monotonic() - began)


def _instance(theorem: Theorem, index: int, key: int, worst: dict[str, float]) -> Row:
    what = f"instance {index}"
    setup = theorem.instances(key)
    checked = theorem.check(setup)
    failed = [c for c in checked if not c.met]
    foreign = theorem.foreign(setup)
    if failed or foreign:
        why = str(failed[0]) if failed else f"about other {foreign}"
        return Row(theorem.id, what, "inconclusive", reason=f"the instance is not one: {why}")
    runs = execute(theorem.runs_of(setup))
    verdicts = judge_runs(Prediction(theorem, setup, checked), runs)
    for verdict in verdicts:
        worst[verdict.quantity] = max(worst.get(verdict.quantity, 0.0), verdict.error)
    decides = max(verdicts, key=_weight)
    return Row(
        theorem.id,
        what,
        decides.verdict if decides.verdict != "not applicable" else "inconclusive",
        decides.quantity,
        decides.error,
        decides.allowed,
        reason=decides.reason,
    )


def _weight(verdict: Verdict) -> tuple[int, float]:
    order = ("holds", "inconclusive", "refuted")
    size = verdict.error / verdict.allowed if verdict.allowed > 0 else 0.0
    return order.index(verdict.verdict), size if np.isfinite(size) else 0.0


def _control(theorem: Theorem, control: Control, key: int, worst: dict[str, float]) -> Row:
    what = f"control ({control.breaks})"
    setup = control.setup(key)
    runs = execute(theorem.runs_of(setup))
    told = _told(theorem, control, setup, runs)
    seen = theorem.measure(runs)
    best: tuple[float, Row] | None = None
    for name, claim in told.claims.items():
        value = measured(seen[name])
        # A control need not converge: only chance may excuse it.
        apart = difference(claim, dataclasses.replace(value, error=0.0))
        allowed = theorem.limit(name) + apart.own
        over = apart.error / allowed if allowed > 0 else np.inf * apart.error
        claimed = worst.get(name, float("nan"))
        separation = apart.error / claimed if claimed > 0 else float("nan")
        row = Row(
            theorem.id,
            what,
            "breaks" if over > BREAKS else "does not break",
            name,
            apart.error,
            allowed,
            separation,
        )
        if np.isfinite(apart.error) and (best is None or over > best[0]):
            best = (over, row)
    if best is None:
        return Row(theorem.id, what, "inconclusive", reason="its run gave no numbers")
    return best[1]


def _told(theorem: Theorem, control: Control, setup: Any, runs: Any) -> Told:
    if control.predict is None:
        return theorem.tell(setup, runs)
    told = control.predict(setup, runs) if theorem.given else control.predict(setup)
    return told if isinstance(told, Told) else Told(told)


def _erratum(theorem: Theorem, erratum: Erratum, key: int) -> Row:
    assert erratum.evidence is not None
    found = erratum.evidence(key)
    word: Word = "shown" if erratum.shown(found) else "not shown"
    numbers = f"printed {number(found.printed)}, corrected {number(found.corrected)}"
    if found.z is not None:
        numbers += f", z {number(found.z)}"
    return Row(theorem.id, f"erratum: {erratum.where}", word, reason=numbers)
