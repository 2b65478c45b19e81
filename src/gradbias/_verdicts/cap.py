"""Graded hypotheses that allow too much: at which step, or width, would the runs tell?"""

import dataclasses
import math
from collections.abc import Sequence

from .._engine.setup import Setup
from .._text.table import number
from ..theorems import Checked

FINEST = 1e-4  # of the learning rate: smaller ones are not looked for
LOOKS = 12
WIDTH = {"O(h^-½)": -0.5}  # order → the power of the width that it is


def too_large(hypotheses: Sequence[Checked], setup: Setup, expected: float, cap: float) -> str:
    """Why an expected error above the cap tells nothing, and what would.

    Args:
        hypotheses: as they were found on the setup.
        setup: which one.
        expected: all that they allow together, and what the prediction allows itself.
        cap: how much they may.
    """
    graded = [c for c in hypotheses if c.expected_error > 0]
    what = f"what is expected to be off is {number(expected)}, more than {number(cap)}"
    if not graded:
        return f"{what}: too large to tell"
    worst = max(graded, key=lambda c: c.expected_error)
    name = worst.hypothesis.name
    remedy = _remedy(worst, graded, setup, cap - expected + sum(c.margin for c in graded))
    return f"it is not true enough that {name}: {what}{remedy}"


def _remedy(worst: Checked, graded: Sequence[Checked], setup: Setup, left: float) -> str:
    """The value of a parameter at which the graded hypotheses would allow `left` at most."""
    if left <= 0:
        return ""
    width = getattr(setup.net, "width", None)
    if worst.hypothesis.order in WIDTH and width is not None:
        factor = (left / worst.margin) ** (1 / WIDTH[worst.hypothesis.order])
        return f"; width = {math.ceil(width * factor)} would tell"
    lr = getattr(setup.dynamics, "lr", None)
    if lr is None or callable(lr) or not float(lr) > 0:
        return ""
    factor = _largest_factor(graded, setup, left)
    return f"; lr = {number(factor * float(lr))} would tell" if factor else ""


def _largest_factor(graded: Sequence[Checked], setup: Setup, left: float) -> float:
    """By how much the learning rate must be smaller; 0 if that does not help."""

    def allowed(factor: float) -> float:
        lr = float(setup.dynamics.lr) * factor  # pyright: ignore[reportAttributeAccessIssue]
        slower = setup.replace(dynamics=dataclasses.replace(setup.dynamics, lr=lr))  # pyright: ignore[reportArgumentType]
        return sum(c.hypothesis.check(slower).margin for c in graded)

    low = math.log(FINEST)
    high = 0.0
    try:
        if not allowed(FINEST) <= left:
            return 0.0
        for _ in range(LOOKS):
            middle = (low + high) / 2
            low, high = (middle, high) if allowed(math.exp(middle)) <= left else (low, middle)
    except (ValueError, TypeError):  # these dynamics have no such step
        return 0.0
    return math.exp(low)
