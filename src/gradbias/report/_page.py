"""The report: one HTML file that needs nothing else."""

import base64
import html
from collections.abc import Callable
from typing import Any

import numpy as np

from .._text.page import page as around
from ..theorems import known, to_html
from ._collect import Content
from ._errata import NAMES, Correction, by_kind, counted, errors, evidence_in_words

GOOD = {"holds", "breaks", "shown"}
# The first word of what was tried → the column of the table.
KINDS = {
    "instance": "instance",
    "control": "control",
    "wrong": "control",
    "erratum": "erratum",
}


def page(content: Content, errata: list[Correction]) -> str:
    """The whole page as text.

    Args:
        content: verdicts, figures, machine.
        errata: the corrections.
    """
    return around(
        "gradbias: what was predicted, what was measured",
        "\n".join(
            [
                _head(content, errata),
                _figures(content),
                _paper_size(content),
                _verdicts(content),
                _errata(errata),
                _made_on(content),
            ]
        ),
        filters=True,
    )


def _head(content: Content, errata: list[Correction]) -> str:
    seen, must = content.seen
    bad = content.count("refuted", "does not break", "not shown", "error")
    open_ = content.count("inconclusive")
    cells = [
        (str(len(content.rows)), "theorems tried on fresh random instances"),
        (str(content.count("holds")), "instances hold"),
        (str(content.broken("control")), "broken hypotheses are seen to matter"),
        (str(content.broken("wrong formula")), "wrong formulas are seen to fail"),
        (_percent(content.powers, np.median), "power: half of the equalities would notice this"),
        (_percent(content.powers, np.max), "worst power of an equality"),
        (str(content.count("shown")), "errata (false or misprinted) shown by numbers"),
        (f"{seen} of {must}", "things that must be seen in figures are seen"),
        (str(bad), "speak against a theorem"),
        (str(open_), "inconclusive"),
    ]
    boxes = "".join(f"<div><b>{number}</b><span>{words}</span></div>" for number, words in cells)
    return (
        "<h1>Which minimum does gradient descent pick?</h1>"
        "<p>Theorems predict it, simulation measures it; this page compares the two. "
        "A theorem's control breaks one of its hypotheses, or puts a wrong formula in its place, "
        "and must be seen to fail. The power of a verdict is the smallest change of the prediction "
        "that the run would have refuted.</p>"
        f'<div class="boxes">{boxes}</div>'
        f"<p>{html.escape(counted(errata))}.</p>"
        '<nav><a href="#figures">Figures</a> <a href="#verdicts">Verdicts</a> '
        '<a href="#errata">Errata</a> <a href="#made-on">Made on</a></nav>'
    )


def _percent(powers: list[float], of: Callable[[list[float]], float]) -> str:
    if not powers:
        return "none"
    value = 100 * float(of(powers))
    return f"{value:.2g} %" if value >= 0.001 else f"{value:.0e} %"


def _figures(content: Content) -> str:
    return '<h2 id="figures">Figures</h2>' + "\n".join(_figure(f) for f in content.figures)


def _figure(figure: dict[str, Any]) -> str:
    picture = base64.b64encode(figure["svg"].encode()).decode()
    anchor = html.escape(figure["id"])
    title = to_html(figure["title"])
    seen = "".join(_seen(s) for s in figure["seen"])
    return (
        f'<figure id="figure-{anchor}"><h3><a href="#figure-{anchor}">{anchor}</a> {title}</h3>'
        f'<img alt="{html.escape(figure["title"])}" src="data:image/svg+xml;base64,{picture}">'
        f"<figcaption>{to_html(figure['caption'])}</figcaption>"
        f'<table class="seen"><thead><tr><th>checked</th><th>measured</th><th>needs</th>'
        f"<th></th></tr></thead><tbody>{seen}</tbody></table>"
        f"<p class=how><code>{html.escape(figure['command'])}</code> "
        f"({figure['seconds']:.1f} s, key {figure['settings']['key']})</p></figure>"
    )


def _paper_size(content: Content) -> str:
    """How long the figures take at the papers' sizes, and whether the same is seen."""
    head = '<h3 id="paper-size">At the papers’ sizes</h3>'
    if not content.full:
        return (
            f"{head}<p>Not run here: <code>gradbias figures --all --full</code> does, and a report "
            "after it lists the times.</p>"
        )
    rows = "".join(_time(figure) for figure in content.full)
    return (
        f"{head}<table><thead><tr><th>figure</th><th>seconds</th><th>must be seen</th><th></th>"
        f"</tr></thead><tbody>{rows}</tbody></table>"
    )


def _time(figure: dict[str, Any]) -> str:
    seen = sum(s["holds"] for s in figure["seen"])
    must = len(figure["seen"])
    return (
        f"<tr><td>{html.escape(figure['id'])}</td><td>{figure['seconds']:.0f}</td>"
        f"<td>{_mark(f'{seen} of {must} seen', seen == must)}</td>"
        f"<td><code>{html.escape(figure['command'])}</code></td></tr>"
    )


def _seen(seen: dict[str, Any]) -> str:
    word = _mark("seen" if seen["holds"] else "not seen", seen["holds"])
    value = "nothing" if seen["value"] is None else f"{seen['value']:.4g}"
    needs = html.escape(seen["needs"].removeprefix("needs "))
    return (
        f"<tr><td>{to_html(seen['what'])}</td><td>{value}</td><td>{needs}</td><td>{word}</td></tr>"
    )


def _verdicts(content: Content) -> str:
    body = "\n".join(_theorem(name, rows) for name, rows in content.rows.items())
    return (
        '<h2 id="verdicts">Verdicts</h2>'
        '<p><label>Show only <input id="filter" type="search" placeholder="rank1, depth, …">'
        '</label> <output id="shown"></output></p>'
        '<table id="theorems"><thead><tr><th>theorem</th><th>says</th><th>instances</th>'
        f"<th>controls</th><th>errata</th></tr></thead><tbody>{body}</tbody></table>"
    )


def _theorem(name: str, rows: list[dict[str, Any]]) -> str:
    theorem = known().get(name)
    title = to_html(theorem.title) if theorem else ""
    says = to_html(theorem.statement) if theorem else ""
    if theorem is not None and theorem.own:
        says += f"<p>A result of {html.escape(theorem.credit)}.</p>"
    kinds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS.values()}
    for row in rows:
        kinds[KINDS[row["what"].split()[0].rstrip(":")]].append(row)
    anchor = html.escape(name)
    return (
        f'<tr id="{anchor}"><td><a href="#{anchor}">{anchor.replace(".", ".<wbr>")}</a></td>'
        f"<td><details><summary>{title}</summary>{says}<p><code>gradbias verify {anchor}</code></p>"
        f"</details></td><td>{_instances(kinds['instance'])}</td>"
        f"<td>{_words(kinds['control'])}</td><td>{_words(kinds['erratum'])}</td></tr>"
    )


def _instances(rows: list[dict[str, Any]]) -> str:
    """One line for all instances: the worst error and what is allowed."""
    if not rows:
        return ""
    bad = [row for row in rows if row["verdict"] not in GOOD]
    if bad:
        return "<br>".join(f"{_mark(r['verdict'], False)} {_why(r)}" for r in bad)
    worst = max(rows, key=lambda row: row["error"] or 0.0)
    powers = [row["power"] for row in rows if row.get("power")]
    what = "power" if any(row.get("equality") for row in rows) else "slack"
    power = f"<br><small>{what} {max(powers):.1e}</small>" if powers else ""
    return _mark(f"{len(rows)} hold", True) + _within(worst["error"], worst["allowed"]) + power


def _why(row: dict[str, Any]) -> str:
    """The reason, and the traceback of an exception."""
    trace = row.get("traceback")
    more = f"<details><pre>{html.escape(trace)}</pre></details>" if trace else ""
    return html.escape(row["reason"]) + more


def _within(error: float | None, allowed: float | None) -> str:
    if error is None or allowed is None:
        return ""
    return f" ≤ {error:.1e} <small>of {allowed:.0e}</small>" if allowed else " exactly"


def _words(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        what = row["what"].removeprefix("control (").removeprefix("erratum: ")
        what = what.removesuffix(")") if row["what"].startswith("control (") else what
        far = f" ×{row['separation']:.0e}" if row["separation"] else ""
        good = row["verdict"] in GOOD
        lines.append(f"{_mark(row['verdict'], good)}{far} <small>{html.escape(what)}</small>")
    return "<br>".join(lines)


def _mark(word: str, good: bool) -> str:
    """A word with a sign: colour alone would be lost in print and on some eyes."""
    kind, sign = ("good", "✓") if good else ("bad", "✗")
    return f'<span class="{kind}">{sign} {html.escape(word)}</span>'


def _errata(errata: list[Correction]) -> str:
    return '<h2 id="errata">Errata</h2>' + errata_table(errata)


# The lists beside the errata: what a reader should know, without an error of the paper.
BESIDE = {
    "unproved": ("Gaps in proofs", "The claim is not refuted, but the proof does not give it."),
    "loose": ("True, but not sharp", "The printed line holds; a better one does, too."),
    "convention": ("Conventions", "Where two conventions meet, or a model is told from a fact."),
    "reading": (
        "Our readings",
        "Where the text that we had seems to have lost a piece. No verdict on the paper: check "
        "against the PDF.",
    ),
}


def errata_table(found: list[Correction]) -> str:
    """The corrections as tables, with what one should know before reading them."""
    read = "; ".join(dict.fromkeys(f"{e.paper}: {html.escape(e.read)}" for e in found if e.paper))
    kinds = by_kind(found)
    beside = "".join(
        f'<h3 id="errata-{kind}">{title}</h3><p>{words}</p>{_corrections(kinds[kind])}'
        for kind, (title, words) in BESIDE.items()
        if kinds[kind]
    )
    return (
        "<p>Lines of the papers that do not hold as we read them, with what holds instead, and in "
        "lists of their own what is no error. None of them has been compared with the newest "
        "version of its paper: a line may be printed differently there, or the fault may be in our "
        f"reading. Read in: {read}.</p><p>{html.escape(counted(found))}.</p>"
        f"{_corrections(errors(found))}{beside}"
    )


def _corrections(found: list[Correction]) -> str:
    rows = "".join(_correction(e) for e in found)
    return (
        '<table class="errata"><thead><tr><th>where</th><th>as we read it</th><th>what holds</th>'
        f"<th>evidence</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _correction(e: Correction) -> str:
    note = f"<br><small>{to_html(e.note)}</small>" if e.note else ""
    cells = (
        f"{html.escape(e.paper)}<br><small>{html.escape(e.where)}; {NAMES[e.kind][0]}</small>",
        to_html(e.printed),
        to_html(e.corrected) + note,
        f"{html.escape(evidence_in_words(e))}<br><code>{html.escape(e.command)}</code>",
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _made_on(content: Content) -> str:
    seconds = sum(row["seconds"] for rows in content.rows.values() for row in rows)
    drawn = sum(figure["seconds"] for figure in content.figures)
    lines = {
        **content.machine,
        "time": f"{seconds:.0f} s for the theorems, {drawn:.0f} s for the figures (all processes)",
        "seeds": "instance i of a theorem has the key of the command plus i; figures say theirs",
    }
    body = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in lines.items())
    return f'<h2 id="made-on">Made on</h2><dl>{body}</dl>'
