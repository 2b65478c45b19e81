"""Every place of a paper that a reader should know about: for the page, and as `errata.json`."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from ..numerics.progress import CountProgress
from ..theorems import ERRORS, KINDS, Erratum, Evidence, Theorem, find

# Of each kind: its name, and what stands in the place of evidence where there are no numbers.
NAMES = {
    "false": ("false", "by the argument beside it"),
    "misprint": ("misprint", "by the lines around it"),
    "unproved": ("gap in a proof", "not proved as printed; not refuted"),
    "loose": ("not sharp", "true, but not sharp"),
    "convention": ("another convention", "another convention"),
    "reading": ("our reading", "our reading: check against the PDF"),
}
SHOWN = 1e-3  # smaller uncertainties are rounding


@dataclasses.dataclass(frozen=True)
class Correction:
    """One line of a paper, and what a reader should know about it.

    Attributes:
        theorem: the id under which the corrected statement is kept.
        paper: authors and year.
        read: the text in which the line was read.
        where: the place in it.
        printed: the line, LaTeX between dollars.
        corrected: what holds instead.
        kind: false, misprint, unproved, loose, convention or reading.
        bound: whether the evidence is about bounds.
        evidence: the numbers; None where there is nothing to compute.
        quote: what stands in the text that was read, which a machine converted.
        note: what else a reader should know.
        command: the line that shows the evidence.
        compared_with_newest: whether a newer version of the paper was looked at.
    """

    theorem: str
    paper: str
    read: str
    where: str
    printed: str
    corrected: str
    kind: str
    bound: bool
    evidence: dict[str, float | None] | None
    quote: str
    note: str
    command: str
    compared_with_newest: str = "no"


def corrections(only: str = "*", key: int = 0) -> list[Correction]:
    """All corrections, with evidence computed anew.

    Args:
        only: a pattern of theorem ids.
        key: decides the instances on which the evidence is computed.
    """
    wrong = [(theorem, erratum) for theorem in find(only) for erratum in theorem.errata]
    found: list[Correction] = []
    with CountProgress("errata", len(wrong)) as count:
        for number, (theorem, erratum) in enumerate(wrong):
            count.step(number, theorem.id)
            found.append(_of(theorem, erratum, key))
    return found


def _of(theorem: Theorem, erratum: Erratum, key: int) -> Correction:
    source = theorem.source
    found = None if erratum.evidence is None else erratum.evidence(key)
    return Correction(
        theorem.id,
        "" if source is None else str(source),
        "" if source is None else source.read,
        erratum.where,
        erratum.printed,
        erratum.corrected,
        erratum.kind,
        erratum.bound,
        None if found is None else _numbers(found),
        erratum.quote,
        erratum.note,
        f"gradbias theorems {theorem.id}",
    )


def _numbers(found: Evidence) -> dict[str, float | None]:
    """JSON knows no infinity: a value that is not finite is null."""
    values = dataclasses.asdict(found)
    return {n: v if v is None or abs(v) < float("inf") else None for n, v in values.items()}


def evidence_in_words(correction: Correction) -> str:
    """The numbers of a correction, in a sentence."""
    if correction.evidence is None:
        return NAMES[correction.kind][1]
    printed = correction.evidence["printed"]
    corrected = correction.evidence["corrected"]
    doubt = correction.evidence["uncertainty"]
    what = "measured ÷ bound" if correction.bound else "error"
    words = f"{what}: printed {_number(printed)}, corrected {_number(corrected)}"
    return words if doubt is None or doubt < SHOWN else f"{words}, both ± {_number(doubt)}"


def by_kind(found: list[Correction]) -> dict[str, list[Correction]]:
    """The same in lists of their own: what is no error is not among the errata."""
    return {kind: [c for c in found if c.kind == kind] for kind in KINDS}


def counted(found: list[Correction]) -> str:
    """How many there are of each kind, in a line."""
    counts = [f"{NAMES[kind][0]}: {len(some)}" for kind, some in by_kind(found).items() if some]
    return ", ".join(counts)


def errors(found: list[Correction]) -> list[Correction]:
    """The errata proper: what is false or misprinted."""
    return [c for c in found if c.kind in ERRORS]


def _number(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.2g}"


def write(path: Path, found: list[Correction]) -> None:
    """Write `errata.json`: a list for each kind."""
    rows: dict[str, list[dict[str, Any]]] = {
        kind: [dataclasses.asdict(correction) for correction in some]
        for kind, some in by_kind(found).items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
