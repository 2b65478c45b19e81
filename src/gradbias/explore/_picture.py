"""What the page draws, as plain data: panels, marks and numbers."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

Json: TypeAlias = dict[str, object]  # of what `json` can write
Points: TypeAlias = np.ndarray | Sequence[ArrayLike]  # a row for each axis
MOST = 400  # points of a line: a page is no wider


def axis(label: str, low: float, high: float, log: bool = False) -> Json:
    """One axis of a panel."""
    return {"label": label, "low": float(low), "high": float(high), "log": log}


def panel(title: str, x: Json, y: Json, marks: Sequence[Json], square: bool = False) -> Json:
    """A picture with two axes.

    Args:
        title: above it.
        x: of `axis`.
        y: of `axis`.
        marks: what is drawn at once.
        square: is a unit as long on both axes?
    """
    return {"title": title, "x": x, "y": y, "marks": list(marks), "square": square}


def line(look: str, points: Points, label: str = "", series: int = 0) -> Json:
    """A line; `look` is minima, predicted, simulated, bound or guide.

    Args:
        look: how it is drawn.
        points: (2, n), along the first axis and along the second.
        label: in the legend, which leaves out marks without one.
        series: its colour.
    """
    return _mark("line", look, points, label, series)


def dots(look: str, points: Points, label: str = "", series: int = 0) -> Json:
    """Points, (2,) or (2, n): rings where predicted, else full; arguments as in `line`."""
    return _mark("ring" if look == "predicted" else "dot", look, points, label, series)


def handle(name: str, at: Points, moves: Sequence[str], scale: float = 1.0) -> Json:
    """A point that can be dragged, and moved with arrow keys.

    Args:
        name: what it is.
        at: (2,), where it is.
        moves: the two controls that it moves.
        scale: place = scale·(their values).
    """
    base = _mark("handle", "handle", at, name, 0)
    return {**base, "moves": list(moves), "scale": float(scale)}


def number(key: str, name: str, value: ArrayLike) -> Json:
    """One row of the table, a number or several: predicted or measured under the same key."""
    values = np.asarray(value, dtype=float)
    shown = [_plain(one) for one in values.ravel()]
    return {"key": key, "name": name, "value": shown if values.ndim else shown[0]}


def _mark(kind: str, look: str, points: Points, label: str, series: int) -> Json:
    places = np.reshape(np.asarray(points, dtype=float), (2, -1))
    if places.shape[1] > MOST:
        places = places[:, np.unique(np.linspace(0, places.shape[1] - 1, MOST).astype(int))]
    x, y = ([_plain(value) for value in row] for row in places)
    return {"kind": kind, "look": look, "x": x, "y": y, "label": label, "series": series}


def _plain(value: float) -> float | None:
    """JSON knows no NaN and no infinity."""
    return float(value) if math.isfinite(value) else None
