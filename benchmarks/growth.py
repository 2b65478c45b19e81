"""How cost grows: W1 with the members, W3 with the width."""

import functools
from typing import Any

import numpy as np

import gradbias as gb

from . import w1, w3
from .protocol import Check, seconds


def workloads(quick: bool) -> list[Check]:
    """Exponents: 1 is linear, 0 is flat; what is measured may be a little above."""
    seeds = (5, 20) if quick else (5, 10, 20, 40)
    widths = (500, 2000) if quick else (500, 2000, 10_000)
    return [
        Check("W1 with members", functools.partial(_members, seeds), 1.15, "exponent"),
        Check("W3 with h", functools.partial(_width, widths), 0.1, "exponent"),
    ]


def _members(seeds: tuple[int, ...]) -> tuple[float, dict[str, Any]]:
    """CPU time of W1's GD with 10 × `seeds` members."""
    costs = []
    for count in seeds:
        job = functools.partial(w1.run, 5_000, count, (None,))
        job()
        costs.append(min(seconds(job)[0] for _ in range(3)))
    return _exponent(seeds, costs), {"members": [10 * s for s in seeds], "seconds": costs}


def _width(widths: tuple[int, ...]) -> tuple[float, dict[str, Any]]:
    """CPU time of a step at each width: the difference of two runs, which share their start."""
    costs = [max(_step(width), 1e-9) for width in widths]
    return max(_exponent(widths, costs), 1e-3), {"h": list(widths), "seconds_per_step": costs}


def _step(width: int, few: int = 1_000, many: int = 9_000) -> float:
    def job(steps: int) -> float:
        setup = w3.setup(width, 0, gb.Until(steps=steps))
        return min(seconds(lambda: gb.simulate(setup, progress=False))[0] for _ in range(3))

    job(few)
    return (job(many) - job(few)) / (many - few)


def _exponent(sizes: Any, costs: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
