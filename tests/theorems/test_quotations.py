"""Every quotation stands in the text that it is taken from, near the place that is named.

The texts are machine conversions that are not part of the project; without them there is nothing
to compare.
"""

import os
import re
from pathlib import Path

import pytest

import gradbias as gb
from gradbias.theorems import Erratum

# Beside the clone, or where the variable says.
BESIDE = Path(__file__).parents[3] / "shared" / "seeds"
SEEDS = Path(os.environ.get("GRADBIAS_SEEDS", BESIDE))
TEXTS = {
    "rank1": "000_011a6f193c94e322.txt",
    "spectral": "001_1851104e53d43e3b.txt",
    "zeroloss": "002_91b785b7eea988b3.txt",
    "imbalance": "003_42e38393d9239c71.txt",
    "equilibrium": "004_973f4241e98457e7.txt",
}
NEAR = 5000  # characters, without white space
# How a text may name what `where` names.
LABELS = (
    (r"(?:Lemma|Theorem|Proposition|Corollary|Remark) [A-Z0-9]\.?\d*(?:\.\d+)?", "{}"),
    (r"\(([A-Z]?\.?\d+)\)", "({})"),
    (r"\(([A-Z]?\.?\d+)\)", r"\tag{{{}}}"),
    (r"\(([A-Z]?\.?\d+)\)", r"(\text{{{}}})"),
    (r"Section ([A-Z]\.\d+|\d+\.?\d*)", "{}"),
    (r"App\. ([A-Z]\.?\d*)", "{}"),
    (r"(footnote)", "scaled"),
)


def quoted() -> list[tuple[str, Erratum]]:
    return [(t.id, e) for t in gb.theorems.find("*") for e in t.errata]


def text_of(theorem: str) -> str:
    paper = theorem.partition(".")[0]
    if not (SEEDS / TEXTS[paper]).exists():
        pytest.skip("the texts of the papers are not here")
    return squeezed((SEEDS / TEXTS[paper]).read_text(encoding="utf-8"))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def labels(where: str) -> list[str]:
    found = []
    for pattern, form in LABELS:
        found += [squeezed(form.format(m)) for m in re.findall(pattern, where)]
    return found


@pytest.mark.parametrize(
    ("theorem", "erratum"), [pytest.param(*q, id=f"{q[0]}-{q[1].where}") for q in quoted()]
)
def test_quotations_stand_where_they_are_said_to(theorem, erratum):
    assert erratum.quote, "every place of a supplied text is quoted"
    text = text_of(theorem)
    quote = squeezed(erratum.quote)
    places = [m.start() for m in re.finditer(re.escape(quote), text)]
    assert places, "not in the text"
    names = labels(erratum.where)
    assert names, f"{erratum.where!r} names no place"
    around = "".join(text[max(0, p - NEAR) : p + len(quote) + NEAR] for p in places)
    assert any(name in around for name in names), f"none of {names} near it"


def test_readings_have_no_verdict():
    for _, erratum in quoted():
        if erratum.kind == "reading":
            assert "heck against the PDF" in erratum.note
            assert erratum.evidence is None
            assert erratum.predict is None
