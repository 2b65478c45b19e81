"""What the theorems say about a setup, before anything runs."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator

import numpy as np

from .._engine.setup import Setup
from .._text.table import Table, brief
from ..theorems import Checked, Claim, Theorem, Told, find
from .narrow_net import narrow


@dataclasses.dataclass(frozen=True, eq=False)
class Prediction:
    """A theorem that applies to a setup; its values are computed when they are read.

    Attributes:
        theorem: which one.
        setup: to what.
        hypotheses: what was found for each of them.
    """

    theorem: Theorem
    setup: Setup
    hypotheses: list[Checked]

    @functools.cached_property
    def told(self) -> Told:
        """What the theorem says; it may take a root or an optimisation to know."""
        if self.theorem.given:
            raise ValueError(
                f"{self.theorem.id} takes {', '.join(self.theorem.given)} from the run; "
                "use gb.compare(run, …) or gb.check(setup)"
            )
        return self.theorem.tell(self.setup)

    @property
    def value(self) -> dict[str, np.ndarray]:
        """Quantity → predicted number or array."""
        return {name: claim.value for name, claim in self.claims.items()}

    @property
    def claims(self) -> dict[str, Claim]:
        """Quantity → predicted value with its relation (=, ≤, ≥)."""
        return self.told.claims

    @property
    def residual(self) -> float:
        """How well the root or minimum behind the values was found."""
        return self.told.residual

    @property
    def expected_error(self) -> float:
        """The relative error that the graded hypotheses allow."""
        return sum(checked.expected_error for checked in self.hypotheses)

    @property
    def grades(self) -> str:
        """Where that error comes from: "up to O(lr): expected ≤ 2e-3"."""
        graded = [c for c in self.hypotheses if c.hypothesis.graded and c.margin > 0]
        return "; ".join(str(checked) for checked in graded)

    def __repr__(self) -> str:
        return f"Prediction({self.theorem.id!r}, expected_error={self.expected_error:.1e})"


class Predictions(Table):
    """The predictions for one setup: a sequence, and a table to read.

    Attributes:
        setup: what they are about.
        applying: the predictions.
        near_misses: theorems about such setups, with the hypothesis that fails.
        others: how many more are about other nets, problems or dynamics.
    """

    columns = ("theorem", "quantity", "predicted", "hypotheses")

    def __init__(
        self,
        setup: Setup,
        applying: list[Prediction],
        near_misses: list[tuple[Theorem, Checked]],
        others: Counter[str],
    ):
        self.setup = setup
        self.applying = applying
        self.near_misses = near_misses
        self.others = others

    def __len__(self) -> int:
        return len(self.applying)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.applying)

    def __getitem__(self, which: int | str) -> Prediction:
        """By position, or by the theorem's id."""
        if isinstance(which, int):
            return self.applying[which]
        for prediction in self.applying:
            if prediction.theorem.id == which:
                return prediction
        raise KeyError(f"{which!r}: {self.why_not(which)}")

    def why_not(self, theorem_id: str) -> str:
        """Why a theorem does not apply here."""
        for theorem, failed in self.near_misses:
            if theorem.id == theorem_id:
                return f"{theorem.id} does not apply: {failed}"
        return f"{theorem_id} is about other nets, problems or dynamics, or was not asked for"

    def rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for prediction in self.applying:
            grades = prediction.grades or "met"
            if prediction.theorem.given:
                given = f"from the run: {', '.join(prediction.theorem.given)}"
                rows.append((prediction.theorem.id, given, "", grades))
                continue
            try:
                claims = prediction.claims
            except Exception as error:
                rows.append((prediction.theorem.id, "not computed", "", str(error)))
                continue
            for quantity, claim in claims.items():
                sign = {"=": "", "<=": "≤ ", ">=": "≥ "}[claim.relation]
                rows.append((prediction.theorem.id, quantity, sign + brief(claim.value), grades))
        return rows

    def notes(self) -> list[str]:
        notes = [f"{theorem.id} does not apply: {failed}" for theorem, failed in self.near_misses]
        notes += [f"{count} more are about other {kind}" for kind, count in self.others.items()]
        return notes if self.applying else ["no theorem applies", *notes]


def predict(
    setup: Setup, only: str | Theorem = "*", *, full: bool = False, progress: bool | None = None
) -> Predictions:
    """What the theorems say about a setup.

    Args:
        setup: what would be run.
        only: a pattern of theorem ids, such as "rank1.*", or a theorem.
        full: show every near miss by itself instead of one line for those with the same reason.
        progress: count the theorems while they are asked; by default where a person may be looking.

    Returns:
        The predictions of the theorems that apply, and for near misses the hypothesis that fails.
    """
    if not isinstance(setup, Setup):
        raise ValueError(f"setup must be a gb.Setup, got {type(setup).__name__}")
    applying: list[Prediction] = []
    missed: list[tuple[Theorem, Checked]] = []
    others: Counter[str] = Counter()
    asked = find(only)
    with Counter("asking theorems", len(asked), progress) as count:
        for number, theorem in enumerate(asked):
            count.step(number, theorem.id)
            foreign = theorem.foreign(setup)
            if foreign:
                others[foreign] += 1
                continue
            small = narrow(setup) if theorem.narrow else None
            checked = theorem.check(setup if small is None else small)
            failed = [c for c in checked if not c.met]
            if failed:
                missed.append((theorem, failed[0]))
            else:
                applying.append(Prediction(theorem, setup, checked))
    return Predictions(setup, applying, missed, others)
