"""Every correction with its evidence: for the page, and as `errata.json`."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from ..theorems import Erratum, Evidence, Theorem, find


@dataclasses.dataclass(frozen=True)
class Correction:
    """One line of a paper that does not hold as we read it.

    Attributes:
        theorem: the id under which the corrected statement is kept.
        paper: authors and year.
        read: the text in which the line was read.
        where: the place in it.
        printed: the line, LaTeX between dollars.
        corrected: what holds instead.
        kind: numeric, bound, ill-typed, unproved, loose or convention.
        evidence: the numbers; None where there is nothing to compute.
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
    evidence: dict[str, float | None] | None
    note: str
    command: str
    compared_with_newest: str = "no"


def corrections(pattern: str = "*", key: int = 0) -> list[Correction]:
    """All corrections, with evidence computed anew.

    Args:
        pattern: which theorems.
        key: decides the instances on which the evidence is computed.
    """
    return [_of(theorem, e, key) for theorem in find(pattern) for e in theorem.errata]


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
        None if found is None else _numbers(found),
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
        return {
            "ill-typed": "the shapes do not fit",
            "unproved": "not proved as printed",
            "loose": "true, but not sharp",
            "convention": "another convention",
        }.get(correction.kind, "")
    printed, corrected = correction.evidence["printed"], correction.evidence["corrected"]
    z = correction.evidence.get("z")
    what = "measured ÷ bound" if correction.kind == "bound" else "error"
    words = f"{what}: printed {_number(printed)}, corrected {_number(corrected)}"
    return words if z is None else f"{words}, {z:.1f} standard errors apart"


def _number(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.2g}"


def write(path: Path, found: list[Correction]) -> None:
    """Write `errata.json`."""
    rows: list[dict[str, Any]] = [dataclasses.asdict(correction) for correction in found]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
