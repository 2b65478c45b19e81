"""What the theorems say about a setup, as values and as text: best first, paper by paper."""

import dataclasses
import functools
import html
import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np

from .._engine.setup import Setup
from .._text.table import WIDTH, Table, brief, number, wrapped
from ..numerics.names import suggestion
from ..theorems import Checked, Claim, Theorem, Told, known, to_html, to_unicode

SIGNS = {"=": "", "<=": "≤ ", ">=": "≥ "}
FOLDED = WIDTH - 12  # room for how many more there are
ENDS = ("theta", "W1", "W2")  # where a run ends, which most people ask first


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

    @property
    def says(self) -> list[tuple[str, str]]:
        """Quantity and value as text; what it takes from the run, or why nothing was computed."""
        if self.theorem.given:
            return [("from the run", ", ".join(self.theorem.given))]
        try:
            claims = self.claims
        except Exception as error:  # whatever it is, it is this theorem's alone
            return [("not computed", str(error))]
        return [(name, SIGNS[c.relation] + brief(c.value)) for name, c in claims.items()]

    @property
    def _rank(self) -> tuple[bool, bool, bool, float]:
        """Numbers before what needs the run, end points and equalities first, then exact ones."""
        try:
            claims = {} if self.theorem.given else self.claims
        except Exception:
            claims = {}
        bounds = not any(claim.relation == "=" for claim in claims.values())
        return (not claims, not any(n in ENDS for n in claims), bounds, self.expected_error)

    def __str__(self) -> str:
        head = f"{self.theorem.id}: {self.theorem.title}" if self.theorem.title else self.theorem.id
        error = f"expected error {number(self.expected_error)}"
        return "\n".join(
            [
                head,
                *wrapped(to_unicode(self.theorem.statement), WIDTH, "  "),
                *(f"  {name}: {value}" for name, value in self.says),
                *wrapped(f"{error} ({self.grades})" if self.grades else error, WIDTH, "  "),
            ]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = html.escape(f"{self.theorem.id}: {self.theorem.title}".removesuffix(": "))
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
            for name, value in self.says
        )
        grades = html.escape(self.grades or "every hypothesis is met")
        return (
            f"<p><b>{head}</b><br>{to_html(self.theorem.statement)}</p>"
            f"<table>{rows}</table><p>{grades}</p>"
        )


class Predictions(Table):
    """The predictions for one setup: a sequence, and a table to read.

    Attributes:
        setup: what they are about.
        applying: the predictions.
        near_misses: theorems about such setups, with the hypothesis that fails.
        others: how many more are about other nets, problems or dynamics.
        full: are near misses shown one by one?
    """

    columns = ("theorem", "quantity", "predicted", "hypotheses")

    def __init__(
        self,
        setup: Setup,
        applying: list[Prediction],
        near_misses: list[tuple[Theorem, Checked]],
        others: Counter[str],
        full: bool = False,
    ):
        self.setup = setup
        self.applying = applying
        self.near_misses = near_misses
        self.others = others
        self.full = full

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
        if theorem_id not in known():
            return f"there is no theorem {theorem_id!r}" + suggestion(theorem_id, known())
        theorem = known()[theorem_id]
        what = theorem.foreign(self.setup)
        if not what:
            applies = any(p.theorem.id == theorem_id for p in self.applying)
            return f"{theorem_id} applies" if applies else f"{theorem_id} was not asked for"
        kinds, thing = {
            "nets": (theorem.nets, self.setup.net),
            "problems": (theorem.problems, self.setup.problem),
            "dynamics": (theorem.dynamics, self.setup.dynamics),
        }[what]
        names = " or ".join(kind.__name__ for kind in kinds)
        return f"{theorem_id} is about {names}; this setup has {type(thing).__name__}"

    def rows(self) -> list[tuple[str, ...]]:
        return [
            (prediction.theorem.id, name, value, prediction.grades or "met")
            for _, some, _ in self._papers
            for prediction in some
            for name, value in prediction.says
        ]

    def notes(self) -> list[str]:
        notes = [line for _, _, missed in self._papers for line in self._missed(missed)]
        notes += self._elsewhere()
        return notes if self.applying else ["no theorem applies", *notes]

    def __str__(self) -> str:
        lines = [] if self.applying else ["no theorem applies"]
        for title, some, missed in self._papers:
            lines += ["", _fitting(title)]
            for prediction in some:
                lines += _entry(prediction)
            for miss in self._missed(missed):
                lines += wrapped(miss, WIDTH, "  ") if self.full else [f"  {miss}"]
        return "\n".join([*lines, "", *self._elsewhere()]).strip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [] if self.applying else ["<p>no theorem applies</p>"]
        for title, some, missed in self._papers:
            rows = "".join(_html_entry(prediction) for prediction in some)
            parts.append(f"<p><b>{html.escape(title)}</b></p><table>{rows}</table>")
            parts += [f"<p>{html.escape(line)}</p>" for line in self._missed(missed)]
        parts += [f"<p>{html.escape(line)}</p>" for line in self._elsewhere()]
        return "".join(parts)

    @functools.cached_property
    def _papers(
        self,
    ) -> list[tuple[str, list[Prediction], list[tuple[Theorem, Checked]]]]:
        """Title, predictions and near misses of each paper; the one that says most goes first."""
        applying = sorted(self.applying, key=lambda p: p._rank)
        titles = dict.fromkeys(_title(p.theorem) for p in applying)
        titles |= dict.fromkeys(_title(theorem) for theorem, _ in self.near_misses)
        return [
            (
                title,
                [p for p in applying if _title(p.theorem) == title],
                [miss for miss in self.near_misses if _title(miss[0]) == title],
            )
            for title in titles
        ]

    def _missed(self, missed: list[tuple[Theorem, Checked]]) -> list[str]:
        """Near misses of a paper: each, or all in one line, the commonest reasons first."""
        if self.full:
            return [f"{theorem.id} does not apply: {failed}" for theorem, failed in missed]
        if len(missed) == 1:
            theorem, failed = missed[0]
            both = (_short(failed), _short(failed, False))
            return [_fitting(*(f"{theorem.id} needs {reason}" for reason in both))]
        said = ((_short(failed), _short(failed, False)) for _, failed in missed)
        reasons = Counter(said).most_common()
        if len(reasons) < 2:
            return [_fitting(*(f"{count} need {r}" for r in both)) for both, count in reasons]
        line = f"{len(missed)} do not apply:"
        left = len(missed)
        for place, (both, count) in enumerate(reasons):
            start = f"{line}{',' * bool(place)} {count} need{'s' * (count == 1)} "
            longer = _fitting(*(start + reason for reason in both))
            if place and len(longer) > FOLDED:
                break
            line = longer
            left -= count
        return [f"{line}, {left} more" if left else line]

    def _elsewhere(self) -> list[str]:
        parts = [f"{count} about other {kind}" for kind, count in self.others.items()]
        return wrapped(f"not asked: {', '.join(parts)}", WIDTH) if parts else []


def _title(theorem: Theorem) -> str:
    return f"{theorem.source}: {theorem.source.title}" if theorem.source else "own theorems"


def _entry(prediction: Prediction) -> list[str]:
    """A theorem and its values, indented."""
    theorem = prediction.theorem
    head = f"  {theorem.id:<24}{theorem.title}"
    values = prediction.says
    wide = max(len(name) for name, _ in values)
    lines = [_fitting(head)]
    for name, value in values:
        lines += wrapped(f"{name:<{wide}}  {value}", WIDTH, "      ")
    if prediction.grades:
        lines += wrapped(prediction.grades, WIDTH, "      ")
    return lines


def _html_entry(prediction: Prediction) -> str:
    head = html.escape(prediction.theorem.id)
    title = html.escape(prediction.theorem.title)
    grades = html.escape(prediction.grades)
    cells = itertools.chain([(head, title, grades)], itertools.repeat(("", "", "")))
    return "".join(
        f"<tr><td>{a}</td><td>{b}</td><td>{html.escape(name)}</td><td>{html.escape(value)}</td>"
        f"<td>{c}</td></tr>"
        for (a, b, c), (name, value) in zip(cells, prediction.says, strict=False)
    )


def _fitting(*choices: str) -> str:
    """The first that fits into a line; else the last, cut."""
    for line in choices:
        if len(line) <= FOLDED:
            return line
    last = choices[-1]
    return last if len(last) <= WIDTH - 2 else f"{last[: WIDTH - 4].rstrip()} …"


def _short(failed: Checked, with_setup: bool = True) -> str:
    """A reason without the words that every one has, and without numbers of its own."""
    name = failed.hypothesis.name
    thing = name.removeprefix("there is ").removeprefix("there are ")
    if thing == name and not name.startswith(("no ", "one ")):
        thing = f"that {name}"
    return f"{thing} (here {failed.has})" if failed.has and with_setup else thing
