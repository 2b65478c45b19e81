"""The report: one HTML file that needs nothing else."""

import base64
import html
from typing import Any

from .._text.page import page as around
from ..theorems import known, to_html
from ._collect import Content
from ._errata import Correction, evidence_in_words

GOOD = {"holds", "breaks", "shown"}


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
                _head(content),
                _figures(content),
                _paper_size(content),
                _verdicts(content),
                _errata(errata),
                _made_on(content),
            ]
        ),
        filters=True,
    )


def _head(content: Content) -> str:
    seen, must = content.seen
    bad = content.count("refuted", "does not break", "not shown")
    open_ = content.count("inconclusive")
    cells = [
        (str(len(content.rows)), "theorems tried on fresh random instances"),
        (str(content.count("holds")), "instances hold"),
        (str(content.count("breaks")), "controls break, as they must"),
        (str(content.count("shown")), "errata shown by numbers"),
        (f"{seen} of {must}", "things that must be seen in figures are seen"),
        (str(bad), "speak against a theorem"),
        (str(open_), "inconclusive"),
    ]
    boxes = "".join(f"<div><b>{number}</b><span>{words}</span></div>" for number, words in cells)
    return (
        "<h1>Which minimum does gradient descent pick?</h1>"
        "<p>Theorems predict it, simulation measures it; this page sets the one against the other. "
        "A theorem's control breaks one of its hypotheses and must be seen to fail.</p>"
        f'<div class="boxes">{boxes}</div>'
        '<nav><a href="#figures">Figures</a> <a href="#verdicts">Verdicts</a> '
        '<a href="#errata">Errata</a> <a href="#made-on">Made on</a></nav>'
    )


def _figures(content: Content) -> str:
    return '<h2 id="figures">Figures</h2>' + "\n".join(_figure(f) for f in content.figures)


def _figure(figure: dict[str, Any]) -> str:
    picture = base64.b64encode(figure["svg"].encode()).decode()
    anchor, title = html.escape(figure["id"]), to_html(figure["title"])
    seen = "".join(_seen(s) for s in figure["seen"])
    return (
        f'<figure id="figure-{anchor}"><h3><a href="#figure-{anchor}">{anchor}</a> {title}</h3>'
        f'<img alt="{html.escape(figure["title"])}" src="data:image/svg+xml;base64,{picture}">'
        f"<figcaption>{to_html(figure['caption'])}</figcaption>"
        f'<table class="seen"><thead><tr><th>what must be seen</th><th>measured</th><th>needs</th>'
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
    seen, must = sum(s["holds"] for s in figure["seen"]), len(figure["seen"])
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
    kinds: dict[str, list[dict[str, Any]]] = {"instance": [], "control": [], "erratum": []}
    for row in rows:
        kinds[row["what"].split()[0].rstrip(":")].append(row)
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
        return "<br>".join(f"{_mark(r['verdict'], False)} {html.escape(r['reason'])}" for r in bad)
    worst = max(rows, key=lambda row: row["error"] or 0.0)
    return _mark(f"{len(rows)} hold", True) + _within(worst["error"], worst["allowed"])


def _within(error: float | None, allowed: float | None) -> str:
    if error is None or allowed is None:
        return ""
    return f" ≤ {error:.1e} <small>of {allowed:.0e}</small>" if allowed else " exactly"


def _words(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        what = row["what"].partition(" ")[2]
        what = what[1:-1] if what.startswith("(") and what.endswith(")") else what
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


def errata_table(errata: list[Correction]) -> str:
    """The corrections as a table, with what one should know before reading it."""
    rows = "".join(_correction(e) for e in errata)
    read = "; ".join(dict.fromkeys(f"{e.paper}: {html.escape(e.read)}" for e in errata if e.paper))
    return (
        "<p>Lines of the papers that do not hold as we read them, with what holds instead. None of "
        "them has been compared with the newest version of its paper: a line may be printed "
        f"differently there, or the fault may be in our reading. Read in: {read}.</p>"
        '<table class="errata"><thead><tr><th>where</th><th>as we read it</th><th>what holds</th>'
        f"<th>evidence</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _correction(e: Correction) -> str:
    note = f"<br><small>{to_html(e.note)}</small>" if e.note else ""
    cells = (
        f"{html.escape(e.paper)}<br><small>{html.escape(e.where)}; {e.kind}</small>",
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
