"""The least positive root of a function that costs a pass over the data each time it is asked."""

import math
from collections.abc import Callable
from typing import NamedTuple

Point = tuple[float, float]

GROWS = 100.0  # the most by which a trial exceeds all before: far away a line says little


class FirstCrossing(NamedTuple):
    """Where f changes its sign from below.

    Attributes:
        at: the root; inf if f was negative everywhere, 0 if it was so nowhere.
        slope: of f at the root; nan without one.
        last: the last place at which f was asked.
        largest: the largest place.
        converged: was the last place within the tolerance?
    """

    at: float
    slope: float
    last: float
    largest: float
    converged: bool


def least_root(
    f: Callable[[float], float],
    start: float,
    at_zero: float | None,
    trials: int,
    tolerance: float,
) -> FirstCrossing:
    """The first change of sign of f, among the places that were asked.

    Lines through two values, parabolas through three: exact after two values where f is linear.

    Args:
        f: of a positive number; what is not finite counts as positive.
        start: the first place.
        at_zero: f at 0, if it is known.
        trials: how often f may be asked.
        tolerance: relative.
    """
    known: list[Point] = [] if at_zero is None else [(0.0, at_zero)]
    if at_zero is not None and at_zero >= 0:
        return FirstCrossing(0.0, math.nan, 0.0, 0.0, True)
    here = start
    asked: list[float] = []
    for _ in range(trials):
        value = f(here)
        asked.append(here)
        known = sorted([*known, (here, value if math.isfinite(value) else math.inf)])
        guess, slope = _guess(known)
        if math.isfinite(slope) and abs(guess - here) <= tolerance * here:
            return FirstCrossing(guess, slope, here, max(asked), True)
        here = guess
    below, above = _bracket(known)
    at = 0.0 if below is None else math.inf if above is None else here
    return FirstCrossing(at, _guess(known)[1], asked[-1], max(asked), False)


def _bracket(known: list[Point]) -> tuple[Point | None, Point | None]:
    """The last point below the first that is not negative, and that one."""
    above = next((p for p in known if p[1] >= 0), None)
    lower = [p for p in known if p[1] < 0 and (above is None or p[0] < above[0])]
    return (lower[-1] if lower else None), above


def _guess(known: list[Point]) -> tuple[float, float]:
    """Where to look next, and the slope of f there; nan where the guess is no root of a line."""
    below, above = _bracket(known)
    if below is not None and above is not None:
        if math.isinf(above[1]):
            return (below[0] + above[0]) / 2 if below[0] else above[0] / GROWS, math.nan
        return _inside(known, below, above)
    finite = [p for p in known if math.isfinite(p[1])]
    if below is not None:  # negative so far: further out
        return _outside(finite, below[0])
    first = known[0][0]
    if len(finite) < 2:
        return (first / 2 if finite else first / GROWS), math.nan
    cross, slope = _line(finite[0], finite[1])
    if not (slope > 0 and 0 < cross < first):
        return first / GROWS, math.nan
    return (cross, slope) if cross < first / 3 else (first / 3, math.nan)  # steep far out


def _outside(known: list[Point], last: float) -> tuple[float, float]:
    if len(known) < 2:
        return 2 * last, math.nan
    cross, slope = _line(known[-2], known[-1])
    if not (slope > 0 and last < cross):
        return 10 * last, math.nan
    return (cross, slope) if cross <= GROWS * last else (GROWS * last, math.nan)


def _inside(known: list[Point], below: Point, above: Point) -> tuple[float, float]:
    """A root of the parabola through the bracket and the nearest other point, or of the line."""
    cross, slope = _line(below, above)
    others = [p for p in known if p not in (below, above) and math.isfinite(p[1])]
    if others:
        third = min(others, key=lambda p: abs(p[0] - cross))
        curve = (_line(above, third)[1] - _line(below, third)[1]) / (above[0] - below[0])
        # f = f(below) + (η − below)(slope + curve(η − above)): Newton's form, solved by steps.
        for _ in range(30):
            bent = slope + curve * (cross - above[0])
            if bent <= 0:
                return _line(below, above)
            cross = below[0] - below[1] / bent
        if below[0] < cross < above[0]:
            return cross, slope + curve * (2 * cross - below[0] - above[0])
    return _line(below, above)


def _line(a: Point, b: Point) -> Point:
    """Where the line through two points crosses 0, and its slope."""
    slope = (b[1] - a[1]) / (b[0] - a[0])
    return (a[0] - a[1] / slope if slope else math.inf), slope
