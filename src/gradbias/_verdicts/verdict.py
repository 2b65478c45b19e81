"""A verdict, and the table of them that people read."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from .._text.table import Table, number
from ..numerics.names import suggestion

if TYPE_CHECKING:
    import xarray as xr

Word = Literal["holds", "refuted", "inconclusive", "not applicable"]
FOLDED = 3  # theorems that do not apply are named one by one up to so many
_ORDER = ("not applicable", "holds", "inconclusive", "refuted")


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
        power: the smallest relative change of the prediction that this run would have refuted; of
            a bound its slack. NaN where nothing holds.
        bound: is it a bound?
        reason: for what is not "holds": why, and what to do.
        given: what the prediction took from the run.
    """

    theorem: str
    quantity: str
    verdict: Word
    predicted: np.ndarray | None = None
    measured: np.ndarray | None = None
    error: float = float("nan")
    allowed: float = float("nan")
    expected: float = 0.0
    power: float = float("nan")
    bound: bool = False
    reason: str = ""
    given: str = ""


class Verdicts(Table):
    """The verdicts of one comparison: a sequence, and a table to read."""

    columns = ("theorem", "quantity", "error", "allowed", "power", "verdict")

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
        same = [v for v in self.verdicts if v.theorem == which]
        if not same:
            about = dict.fromkeys(v.theorem for v in self.verdicts)
            some = f"; there are {', '.join(list(about)[:6])}" if about else "; there are none"
            raise KeyError(f"no verdict on {which!r}{suggestion(which, about) or some}")
        return max(same, key=lambda v: _ORDER.index(v.verdict))

    @property
    def counts(self) -> dict[str, int]:
        """How many of each."""
        return dict(Counter(v.verdict for v in self.verdicts))

    def rows(self) -> list[tuple[str, ...]]:
        return [
            (v.theorem, v.quantity, *map(_number, (v.error, v.allowed, v.power)), _sentence(v))
            for v in self.verdicts
            if v.verdict != "not applicable"
        ]

    def notes(self) -> list[str]:
        apart = [v for v in self.verdicts if v.verdict == "not applicable"]
        if len(apart) > FOLDED:
            return [f"{len(apart)} theorems are not applicable: gb.predict(setup) says why"]
        return [f"{v.theorem} is not applicable: {v.reason}" for v in apart]

    def to_xarray(self) -> "xr.Dataset":
        """The numbers as an xarray.Dataset over `row`."""
        import xarray as xr

        names = (
            *("theorem", "quantity", "verdict", "error", "allowed", "expected", "power"),
            *("bound", "reason"),
        )
        columns = {n: ("row", [getattr(v, n) for v in self.verdicts]) for n in names}
        return xr.Dataset(columns)


def _number(value: float) -> str:
    return "" if np.isnan(value) else number(value)


def _sentence(verdict: Verdict) -> str:
    extra = [verdict.reason] if verdict.reason else []
    if verdict.given:
        extra.append(f"uses {verdict.given} of the run")
    if verdict.expected and verdict.verdict == "holds":
        extra.append(f"expected ≤ {verdict.expected:.1e}")
    return verdict.verdict + (f" ({'; '.join(extra)})" if extra else "")


def undecided(theorem: str, reason: str) -> Verdict:
    """An inconclusive verdict on a theorem as a whole."""
    return Verdict(theorem, "", "inconclusive", reason=reason)


def failed(theorem: str, error: Exception) -> Verdict:
    """A theorem that could not be told, run or measured."""
    return undecided(theorem, in_a_line(error))


def in_a_line(error: Exception) -> str:
    """What was raised, and the first line of what it says."""
    first = (str(error).strip() or "no message").split("\n")[0]
    return f"{type(error).__name__}: {first}"
