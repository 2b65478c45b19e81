"""`gradbias theorems`: what is known, and one theorem in full."""

import textwrap
from typing import TYPE_CHECKING

from ..numerics.progress import CountProgress

if TYPE_CHECKING:
    from ..theorems import Theorem

WIDTH = 80


def run(only: str) -> None:
    """List the theorems that match; show one in full if its id is given."""
    with CountProgress("theorems", at_once=True) as count:
        count.step(0, "reading them")
        from ._verify import theorems_of

        theorems = theorems_of(only)
    if len(theorems) == 1 and (theorems[0].id == only or only.endswith(".py")):
        print(_in_full(theorems[0]))
        return
    source = None
    for theorem in theorems:
        if theorem.source != source:
            source = theorem.source
            title = f"{source}: {source.title}" if source else "own theorems"
            print(f"\n{textwrap.shorten(title, WIDTH)}")
        print(f"  {theorem.id:<28}{textwrap.shorten(_title(theorem), WIDTH - 30)}")
    print(f"\n{len(theorems)} theorems; `gradbias theorems ID` shows one in full")


def _title(theorem: "Theorem") -> str:
    return f"{theorem.title} ({theorem.credit.partition(';')[0]})" if theorem.own else theorem.title


def _in_full(theorem: "Theorem") -> str:
    from ..theorems import cite, to_unicode

    parts = [f"{theorem.id}  {theorem.title}", *_wrap(to_unicode(theorem.statement)), ""]
    if theorem.own:
        parts += [f"A result of {theorem.credit}", ""]
    parts += ["Hypotheses"]
    for hypothesis in theorem.hypotheses:
        grade = f" (graded, {hypothesis.order or 'expected error'})" if hypothesis.graded else ""
        least = "" if hypothesis.yes_or_no else f": at most {hypothesis.at_most:g}"
        parts += _wrap(f"{hypothesis.name}{grade}{least}", "  ")
    if theorem.controls:
        parts += ["", "Controls (must fail): without"]
        parts += [line for c in theorem.controls for line in _wrap(c.breaks, "  ")]
    for erratum in theorem.errata:
        parts += ["", f"Erratum ({erratum.kind}): {erratum.where}"]
        parts += _wrap(f"printed: {to_unicode(erratum.printed)}", "  ")
        parts += _wrap(f"holds: {to_unicode(erratum.corrected)}", "  ")
        parts += _wrap(erratum.note, "  ") if erratum.note else []
        if erratum.evidence is not None:
            found = erratum.evidence(0)
            line = f"evidence: printed {found.printed:.2g}, corrected {found.corrected:.2g}"
            parts += _wrap(f"{line}, both ± {found.uncertainty:.1g}", "  ")
    if theorem.source is not None or theorem.own:
        parts += ["", cite(theorem)]
    return "\n".join(parts)


def _wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
