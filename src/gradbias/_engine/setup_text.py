"""A setup in words and numbers, for terminals and notebooks."""

import html
from typing import TYPE_CHECKING

import jax
import numpy as np

from ..numerics.pytrees import named_leaves
from ..problems import QuadraticProblem
from ..problems.base import FiniteData

if TYPE_CHECKING:
    from .setup import Setup

MOST_LEAVES = 4


def setup_rows(setup: "Setup") -> dict[str, str]:
    """Part → what it is."""
    saves = setup.save_at
    axis = setup.dynamics.axis
    last = str(saves[-1]) if axis == "step" else f"{saves[-1]:g}"
    return {
        "problem": _problem(setup),
        "net": repr(setup.net),
        "start": _start(setup),
        "dynamics": repr(setup.dynamics),
        "until": _until(setup),
        "record": f"{', '.join(setup.record)}, at {len(saves)} {axis}s up to {last}",
        "key": str(setup.key),
    }


def table_of(rows: dict[str, str]) -> str:
    """Rows as an HTML table."""
    cells = (f"<tr><th>{n}</th><td>{html.escape(words)}</td></tr>" for n, words in rows.items())
    return f"<table>{''.join(cells)}</table>"


def _problem(setup: "Setup") -> str:
    problem = setup.problem
    samples = f"{problem.n} samples, " if isinstance(problem, FiniteData) else ""
    rank = f", rank {problem.rank}" if isinstance(problem, QuadraticProblem) else ""
    kind = type(problem).__name__
    inputs = f"{problem.d} input{'s' * (problem.d != 1)}"
    return f"{kind}: {samples}{inputs}, {problem.k} output{'s' * (problem.k != 1)}{rank}"


def _start(setup: "Setup") -> str:
    """Every parameter by shape and norm; of many their number."""
    leaves = named_leaves(setup.params)
    if len(leaves) > MOST_LEAVES:
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(setup.params))
        return f"{size} parameters in {len(leaves)} arrays"
    return "; ".join(
        f"{name} {_shape(leaf)}, norm {np.linalg.norm(leaf):.3g}" for name, leaf in leaves
    )


def _shape(leaf: np.ndarray) -> str:
    return "×".join(map(str, np.shape(leaf))) or "a number"


def _until(setup: "Setup") -> str:
    until = setup.until
    parts = [
        "" if until.gap is None else f"gap {until.gap:g}",
        "" if until.steps is None else f"{until.steps} steps",
        "" if until.time is None else f"time {until.time:g}",
    ]
    return " or ".join(part for part in parts if part)
