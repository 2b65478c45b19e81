"""A monitored run as one page, for somebody who has not read a paper."""

import html
import math
from typing import TYPE_CHECKING

from ..._text.page import page as around
from .._measure.budget_table import SCALARS
from .chart import chart
from .headline import HEADLINE
from .summary import cost, sentences

if TYPE_CHECKING:
    from .monitor import Monitor

_SAID = {**HEADLINE, **SCALARS}
# Curves in reading order: name, title, logarithmic axis, level to mark.
_CURVES: tuple[tuple[str, str, bool, float | None], ...] = (
    ("loss", "Loss of the probe", True, None),
    ("imbalance_median", "Imbalance, unit in the middle", True, 1.0),
    ("imbalance_max", "Imbalance, worst unit", True, 1.0),
    ("noise_ratio_median", "Noise ratio, unit in the middle", True, 1.0),
    ("noise_ratio_max", "Noise ratio, worst unit", True, 1.0),
    ("sharpness", "Sharpness", True, None),
    ("lr_over_limit", "Learning rate over its limit", True, 1.0),
    ("first_order_share", "Change made by momentum or Adam", False, 1.0),
    ("drift_explained", "Movement explained by gradient noise", False, 1.0),
)

_WORDS = """
<p>A network can often shift scale between the weights that go <em>into</em> a unit and those that
come <em>out</em> of it without changing a single output. Training still notices: an unbalanced unit
learns at two speeds, and imbalance usually makes the loss sharper. <b>Imbalance</b> is the factor
between the two sides (1 is balanced). <b>Noise ratio</b> is the factor between the gradient noise
on the two sides; the noise of SGD pushes it towards 1, often too slowly to get there.
<b>Sharpness</b> is the largest curvature of the loss: plain gradient descent is unstable when the
learning rate is above 2/sharpness. Dashed lines are those levels.</p>
"""


def page(monitor: "Monitor") -> str:
    """The page's text."""
    model = type(monitor.model).__name__
    optimizer = type(monitor.optimizer).__name__
    parts = [
        f"<h1>{html.escape(model)} trained with {html.escape(optimizer)}</h1>",
        f'<p class="soft">{html.escape(cost(monitor))}</p>',
        _list(sentences(monitor)),
        _WORDS,
        "<h2>Curves</h2>",
        f'<div class="grid">{"".join(_figures(monitor))}</div>',
        "<h2>What is balanced</h2>",
        _families(monitor),
        _budget(monitor),
        "<h2>All numbers</h2>",
        _numbers(monitor),
        '<p class="soft">Convention: charge C = θᵀAθ (in minus out), κ = lr/S with S samples in a '
        "batch, objective L + γ‖θ‖² (torch's weight decay is 2γ for SGD). Measured in evaluation "
        "mode on a fixed batch.</p>",
    ]
    return around(f"{model}: balance, noise and sharpness", "\n".join(parts))


def _list(lines: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def _figures(monitor: "Monitor") -> list[str]:
    steps = [float(step) for step, _ in monitor.history]
    names = [c for c in _CURVES if any(c[0] in v and math.isfinite(v[c[0]]) for v in _all(monitor))]
    more = [n for n in monitor.latest if n not in HEADLINE and not n.endswith("_error")]
    curves = [*names, *((n, n.replace("_", " ").capitalize(), False, None) for n in more)]
    figures = []
    for name, title, log, mark in curves:
        y = [values.get(name, math.nan) for values in _all(monitor)]
        sentence = _SAID.get(name, "")
        figures.append(
            f"<figure>{chart(steps, y, log=log, mark=mark)}<figcaption><b>{html.escape(title)}</b>"
            f"{': ' if sentence else ''}{html.escape(sentence)}.</figcaption></figure>"
        )
    return figures or ["<p>Nothing was measured.</p>"]


def _all(monitor: "Monitor") -> list[dict[str, float]]:
    return [values for _, values in monitor.history]


def _families(monitor: "Monitor") -> str:
    if not monitor.families:
        return (
            "<p>No function-preserving rescaling was found (smooth activations such as GELU or "
            "tanh have none), so only the sharpness is followed.</p>"
        )
    rows = [("place", "kind", "units", "parameters")]
    rows += [(f.name, f.kind, str(f.units), ", ".join(f.parameters)) for f in monitor.families]
    return _table(rows)


def _budget(monitor: "Monitor") -> str:
    found = monitor.weight_budget
    return "" if found is None else f"<h2>The budget of weight decay</h2>{found._repr_html_()}"


def _numbers(monitor: "Monitor") -> str:
    if not monitor.history:
        return "<p>Nothing was measured.</p>"
    first, start = monitor.history[0]
    last = monitor.history[-1][0]
    now = monitor.latest
    rows = [("", f"step {first}", f"step {last}", "what it is")]
    for name, value in now.items():
        rows.append((name, f"{start.get(name, math.nan):.4g}", f"{value:.4g}", _SAID.get(name, "")))
    return _table(rows)


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *body = rows
    cells = [f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in body]
    titles = "".join(f"<th>{html.escape(c)}</th>" for c in head)
    return f'<table class="words"><tr>{titles}</tr>{"".join(cells)}</table>'
