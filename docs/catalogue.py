"""The catalogue: every theorem on one page, with filters that work without a network."""

import html
import inspect
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypedDict

import gradbias as gb

OWN = "gradbias, 2026"
# What a filter is called on the page, and the attribute of a theorem that it looks at.
KINDS = {"net": "nets", "problem": "problems", "dynamics": "dynamics"}


class Claim(TypedDict):
    """What docs/claims.py keeps of one theorem, as far as this page shows it."""

    claim: str
    verdicts: dict[str, int]
    digits: int | None
    power: float | None
    broken_hypotheses: int
    wrong_formulas: int


class Claims(TypedDict):
    """docs/claims.json."""

    version: str
    date: str
    claims: list[Claim]


def page(theorems: Sequence[gb.Theorem], claims: Path) -> str:
    """The page as Markdown.

    Args:
        theorems: what is listed, in this order.
        claims: what `make verify-all` found; the page says so if the file is not there.
    """
    measured: Claims | None = None
    if claims.exists():
        measured = json.loads(claims.read_text(encoding="utf-8"))
    found = None if measured is None else {one["claim"]: one for one in measured["claims"]}
    parts = [
        f"# Theorems\n\nEvery theorem that gradbias knows, {len(theorems)} in all: what it says, "
        "when it applies, and how well runs agree with it. `gb.theorems.find()` has the same as "
        f"objects.\n\n{_when(measured)}\n",
        _raw(_form(theorems)),
    ]
    for group in dict.fromkeys(_group(theorem) for theorem in theorems):
        some = [theorem for theorem in theorems if _group(theorem) == group]
        shown = "\n".join(_article(t, found, theorems) for t in some)
        parts.append(f"## {_heading(group, some)}\n\n{_raw(shown)}")
    return "\n".join(parts)


def _raw(text: str) -> str:
    return f"```{{raw}} html\n{text}\n```\n"


def _when(measured: Claims | None) -> str:
    if measured is None:
        return "Verdicts stand here after `make verify-all`, which was not run for this copy."
    return (
        f"Verdicts are those of the last `make verify-all`: version {measured['version']}, "
        f"{measured['date']}. *Power* is the smallest change of the prediction that the worst "
        "instance would have refuted."
    )


def _group(theorem: gb.Theorem) -> str:
    return theorem.id.partition(".")[0]


def _heading(group: str, theorems: Iterable[gb.Theorem]) -> str:
    """The group and its paper, where there is only one."""
    papers = {paper(theorem) for theorem in theorems if not theorem.own}
    return f"{group}: {papers.pop()}" if len(papers) == 1 else group


def paper(theorem: gb.Theorem) -> str:
    """Whose result it is: the paper, or gradbias itself."""
    return OWN if theorem.own or theorem.source is None else str(theorem.source)


def options(theorems: Iterable[gb.Theorem], what: str) -> list[str]:
    """What a filter offers: the classes that theorems name, or their papers.

    Args:
        theorems: those of the page.
        what: "net", "problem", "dynamics" or "paper".
    """
    if what == "paper":
        return list(dict.fromkeys(paper(theorem) for theorem in theorems))
    return sorted(kind.__name__ for kind in _classes(theorems, what))


def matches(theorem: gb.Theorem, what: str, theorems: Iterable[gb.Theorem]) -> list[str]:
    """Under which of these options it is found; one that names no kind is about any."""
    if what == "paper":
        return [paper(theorem)]
    kinds = tuple(getattr(theorem, KINDS[what]))
    return sorted(
        kind.__name__ for kind in _classes(theorems, what) if not kinds or issubclass(kind, kinds)
    )


def _classes(theorems: Iterable[gb.Theorem], what: str) -> set[type]:
    """Those that somebody can make: `LinearNet` stands for all nets below it."""
    named = {kind for theorem in theorems for kind in getattr(theorem, KINDS[what])}
    return {kind for kind in named if not inspect.isabstract(kind)}


def _form(theorems: Sequence[gb.Theorem]) -> str:
    """Hidden until the script that it needs has run."""
    fields = ['<label>Words <input type="search" name="words" autocomplete="off"></label>']
    for what in (*KINDS, "paper"):
        values = "".join(f"<option>{html.escape(v)}</option>" for v in options(theorems, what))
        name = what.capitalize()
        fields.append(
            f'<label>{name} <select name="{what}"><option value="">any</option>{values}'
            "</select></label>"
        )
    return (
        '<form class="theorem-filters" role="search" aria-label="theorems" hidden>'
        f'{"".join(fields)}<button type="reset">Show all</button>'
        f'<output aria-live="polite">{len(theorems)} theorems</output></form>'
    )


def _article(
    theorem: gb.Theorem, claims: dict[str, Claim] | None, theorems: Sequence[gb.Theorem]
) -> str:
    data = "".join(
        f' data-{what}="{html.escape("|".join(matches(theorem, what, theorems)))}"'
        for what in (*KINDS, "paper")
    )
    title = gb.theorems.to_html(theorem.title) or theorem.id
    rows = [
        ("paper", html.escape(theorem.credit or OWN)),
        ("hypotheses", _hypotheses(theorem)),
        *((what, _kinds(theorem, what)) for what in KINDS),
    ]
    if claims is not None:
        claim = claims.get(theorem.id)
        last = "not in that verification" if claim is None else verdict(claim)
        rows.append(("last verdict", html.escape(last)))
    if theorem.errata:
        rows.append(("notes on the text", f'<a href="errata.html">{len(theorem.errata)}</a>'))
    call = f'gb.predict(setup, only="{theorem.id}")'
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows)
    return (
        f'<article class="theorem" id="{theorem.id}"{data}>'
        f'<h3>{title}<a class="headerlink" href="#{theorem.id}" title="Link to this theorem">¶</a>'
        f"</h3><p><code>{theorem.id}</code></p>"
        f'<p class="statement">{gb.theorems.to_html(theorem.statement)}</p>'
        f"<dl>{listed}</dl>{_code('gradbias verify ' + theorem.id)}"
        f"{_code(call)}</article>"
    )


def _hypotheses(theorem: gb.Theorem) -> str:
    items = []
    for hypothesis in theorem.hypotheses:
        grade = f" (graded, {hypothesis.order or 'expected error'})" if hypothesis.graded else ""
        measured = hypothesis.at_most > 0 and not hypothesis.yes_or_no
        least = f": at most {hypothesis.at_most:g}" if measured else ""
        items.append(f"<li>{html.escape(hypothesis.name + grade + least)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else "none"


def _kinds(theorem: gb.Theorem, what: str) -> str:
    names = [kind.__name__ for kind in getattr(theorem, KINDS[what])]
    return ", ".join(f"<code>{name}</code>" for name in names) or "any"


def verdict(claim: Claim) -> str:
    """What the last verification said of it, in a line."""
    total = sum(claim["verdicts"].values())
    others = [f"{n} {name}" for name, n in claim["verdicts"].items() if name != "holds"]
    words = [f"holds in {claim['verdicts'].get('holds', 0)} of {total} instances", *others]
    if claim["digits"] is not None:
        words.append(f"{claim['digits']} digits")
    if claim["power"] is not None:
        words.append(f"power {claim['power']:.0e}")
    controls = claim["broken_hypotheses"] + claim["wrong_formulas"]
    noun = "control" if controls == 1 else "controls"
    return ", ".join([*words, f"{controls} {noun} seen to fail"])


def _code(line: str) -> str:
    """As Sphinx writes a block, so that it gets its button to copy."""
    inner = f"<pre>{html.escape(line)}</pre>"
    return f'<div class="highlight-default"><div class="highlight">{inner}</div></div>'
