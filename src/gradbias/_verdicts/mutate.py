"""Theorems with their predictions made wrong: which errors do the runs notice?"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np

from .._text.table import Table, number
from ..numerics import checks
from ..theorems import Claim, Predict, Runs, Theorem, find
from .judge import Judge
from .power import refuted, scaled
from .predict import Prediction
from .runs import execute
from .verdict import in_a_line
from .verify import Row, quick, rows_of

PER_CENT = (1, 3, 10)
NEEDED = 0.03  # every equality must notice this much on every instance
SHARP = 0.01  # and this much on two of three
Kind = Literal["equality", "bound"]


@dataclasses.dataclass(frozen=True)
class Power:
    """What one instance of a theorem notices of one quantity.

    Attributes:
        theorem: its id.
        quantity: which one.
        kind: "equality" or "bound".
        power: the smallest relative change of the prediction that the run would have refuted,
            of a bound its slack; NaN where the instance itself decided nothing.
        key: of the instance.
        noticed: change → was it refuted? "×1.03", "sign flipped".
        reason: why it cannot notice 3 %, as the theorem says; or why it decided nothing.
    """

    theorem: str
    quantity: str
    kind: Kind
    power: float
    key: int
    noticed: dict[str, bool]
    reason: str = ""

    @property
    def blunt(self) -> bool:
        """An equality that lets 3 % pass?"""
        return self.kind == "equality" and not self.power <= NEEDED


@dataclasses.dataclass(frozen=True)
class Variant:
    """A wrong formula in the place of a theorem's prediction, on one instance.

    Attributes:
        theorem: its id.
        what: "without the noise term", "as printed in Eq (7)".
        key: of the instance.
        noticed: was any quantity refuted?
        reason: why not, where its values could not be computed.
    """

    theorem: str
    what: str
    key: int
    noticed: bool
    reason: str = ""


class Mutations(Table):
    """All changes that were tried."""

    columns = ("theorem", "quantity", "kind", "power", "3 %")

    def __init__(self, tried: list[Power | Variant]):
        self.tried = tried

    def __len__(self) -> int:
        return len(self.tried)

    def __iter__(self) -> Iterator[Power | Variant]:
        return iter(self.tried)

    @property
    def powers(self) -> list[Power]:
        """Of the quantities."""
        return [one for one in self.tried if isinstance(one, Power)]

    @property
    def variants(self) -> list[Variant]:
        """The wrong formulas."""
        return [one for one in self.tried if isinstance(one, Variant)]

    @property
    def worst(self) -> list[Power]:
        """For every quantity of every theorem the instance with the least power."""
        found: dict[tuple[str, str], Power] = {}
        for one in self.powers:
            place = one.theorem, one.quantity
            if place not in found or not one.power <= found[place].power:
                found[place] = one
        return list(found.values())

    @property
    def blunt(self) -> list[Power]:
        """Equalities that let 3 % pass on some instance."""
        return [one for one in self.worst if one.blunt]

    @property
    def dull(self) -> list[Power]:
        """Equalities that let 1 % pass on more than one instance in three."""
        counts: dict[tuple[str, str], list[bool]] = {}
        for one in self.powers:
            counts.setdefault((one.theorem, one.quantity), []).append(one.power <= SHARP)
        few = {place for place, sharp in counts.items() if 3 * sum(sharp) < 2 * len(sharp)}
        return [p for p in self.worst if p.kind == "equality" and (p.theorem, p.quantity) in few]

    @property
    def missed(self) -> list[Variant]:
        """Wrong formulas that no quantity notices."""
        return [one for one in self.variants if not one.noticed]

    @property
    def exit_code(self) -> int:
        """1 if an equality lets 3 % pass or a wrong formula holds, without a reason; else 0."""
        # An instance that decided nothing has a reason, too: that is no excuse.
        excused = all(one.reason and not np.isnan(one.power) for one in self.blunt)
        return int(not excused or bool(self.missed))

    def rows(self) -> list[tuple[str, ...]]:
        return [(p.theorem, p.quantity, p.kind, number(p.power), _noticed(p)) for p in self.worst]

    def notes(self) -> list[str]:
        equalities = [p for p in self.worst if p.kind == "equality"]
        middle = float(np.median([p.power for p in equalities])) if equalities else float("nan")
        lines = [
            f"{len(equalities)} equalities, median power {number(middle)}; {len(self.blunt)} let "
            f"3 % pass, {len(self.dull)} let 1 % pass on more than one instance in three; "
            f"{len(self.variants)} wrong formulas, {len(self.missed)} not noticed"
        ]
        for one in self.blunt:
            why = one.reason or "no reason is given"
            lines.append(f"{one.theorem} {one.quantity}, key {one.key}: {why}")
        lines += [f"{v.theorem} {v.what}, key {v.key}: not noticed" for v in self.missed]
        return lines

    def to_json(self) -> dict[str, Any]:
        """The powers of all instances, and the wrong formulas, as JSON knows them."""
        return {
            "rows": [
                {**dataclasses.asdict(one), "power": _finite(one.power)} for one in self.powers
            ],
            "formulas": [dataclasses.asdict(one) for one in self.variants],
            "blunt": [f"{one.theorem} {one.quantity}" for one in self.blunt],
            "exit_code": self.exit_code,
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _noticed(power: Power) -> str:
    if power.kind == "bound":
        return power.reason
    return power.reason if power.blunt else "noticed"


def mutate(
    only: str | Theorem | Iterable[Theorem] = "*",
    instances: int = 3,
    key: int = 0,
    on_row: Callable[[Power | Variant], None] | None = None,
) -> Mutations:
    """Try theorems with their predictions made wrong.

    Every equality is taken times 1.01, 0.99, 1.03, 0.97, 1.1 and 0.9 and with its sign flipped;
    whole predictions are replaced by what a theorem names as wrong: a term left out, the printed
    form of an erratum.

    Args:
        only: a pattern of ids ("rank1.*"), a theorem or several; as in `verify`.
        instances: how many of each.
        key: an integer that decides all of them.
        on_row: called with everything that was tried as soon as it is known.
    """
    instances = checks.integer("instances", instances, at_least=1)
    key = checks.integer("key", key)
    tried: list[Power | Variant] = []
    for theorem in quick(find(only), only):
        for one in mutations_of(theorem, instances, key):
            tried.append(one)
            if on_row is not None:
                on_row(one)
    return Mutations(tried)


def mutations_of(theorem: Theorem, instances: int, key: int) -> Iterator[Power | Variant]:
    """What was tried with one theorem, as it is finished."""
    for each in range(key, key + instances):
        setup = theorem.instances(each)
        runs = execute(theorem.runs_of(setup))
        yield from mutations_on(Prediction(theorem, setup, theorem.check(setup)), runs, each)


def mutations_on(prediction: Prediction, runs: Runs, key: int) -> Iterator[Power | Variant]:
    """What was tried with the runs of one instance, which has this key."""
    judge = Judge(prediction, runs, strict=True)
    for name, claim in judge.told.claims.items():
        yield _power(judge, name, claim, key)
    for what, predict in variants_of(judge.theorem):
        yield _variant(judge, what, predict, key)


def rows_and_mutations_of(
    theorem: Theorem, instances: int, key: int
) -> Iterator[Row | Power | Variant]:
    """The rows of `verify` and what was tried with the same runs, as they are finished."""
    tried: list[Power | Variant] = []

    def also(prediction: Prediction, runs: Runs, key: int) -> None:
        tried.extend(mutations_on(prediction, runs, key))

    for row in rows_of(theorem, instances, key, also):
        yield row
        yield from tried
        tried.clear()


def variants_of(theorem: Theorem) -> Iterator[tuple[str, Predict]]:
    """The wrong formulas that a theorem names."""
    for term, predict in theorem.terms.items():
        yield f"without {term}", predict
    for erratum in theorem.errata:
        if erratum.predict is not None:
            yield f"as printed in {erratum.where}", erratum.predict


def _power(judge: Judge, name: str, claim: Claim, key: int) -> Power:
    theorem = judge.theorem
    verdict = judge.verdict(name)
    kind: Kind = "equality" if claim.relation == "=" else "bound"
    if verdict.verdict != "holds":
        reason = f"{verdict.verdict}: {verdict.reason}"
        return Power(theorem.id, name, kind, float("nan"), key, {}, reason)
    noticed: dict[str, bool] = {}
    if kind == "equality" and claim.value.any():
        seen = judge.seen[name]
        margin = judge.margin(name)
        for each in PER_CENT:
            both = [scaled(claim, 1 + sign * each / 100) for sign in (1, -1)]
            noticed[f"±{each} %"] = all(refuted(one, seen, margin) for one in both)
        noticed["sign flipped"] = refuted(scaled(claim, -1.0), seen, margin)
    reason = theorem.weak if kind == "equality" else theorem.never_tight
    return Power(theorem.id, name, kind, verdict.power, key, noticed, reason)


def _variant(judge: Judge, what: str, predict: Predict, key: int) -> Variant:
    theorem = judge.theorem
    try:
        claims = theorem.told_by(predict, judge.setup, judge.runs).claims
        noticed = any(
            refuted(
                _measurable(claim, judge.told.claims[name]), judge.seen[name], judge.margin(name)
            )
            for name, claim in claims.items()
        )
    except Exception as error:  # of this formula alone: the others are still tried
        return Variant(theorem.id, what, key, False, in_a_line(error))
    return Variant(theorem.id, what, key, noticed)


def _measurable(wrong: Claim, right: Claim) -> Claim:
    """A wrong claim of 0 is as far away as the right one is large."""
    if wrong.scale is not None or wrong.value.any():
        return wrong
    scale = np.max(np.abs(right.value), initial=0.0) if right.scale is None else right.scale
    return dataclasses.replace(wrong, scale=np.asarray(scale))
