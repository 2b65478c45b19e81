"""W3: the figure of the paper on width, two-layer nets with h = 500 … 10 000, five runs each."""

import functools
from typing import Any

import numpy as np

import gradbias as gb

from .agreement import largest_difference
from .protocol import Arm, Part, Workload

WIDTHS, RUNS, INPUTS = (500, 1000, 2000, 5000, 10_000), 5, 400
LR, GAP = 5e-3, 1e-8  # the paper's, in the convention of the mean


@functools.cache
def problem() -> gb.Regression:
    """100 samples of 400 inputs, entries of variance 1/400."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, INPUTS)) / np.sqrt(INPUTS)
    labels = X @ rng.normal(size=INPUTS) / np.sqrt(INPUTS) + 0.01 * rng.normal(size=100)
    return gb.Regression.mean(X, labels)


def setup(width: int, seed: int, until: gb.Until | None = None) -> gb.Setup:
    """One run, until the averaged loss is 1e-8."""
    net = gb.TwoLayer(INPUTS, 1, width)
    start = gb.init.inverse_width(net, 0.5, key=seed)
    until = until or gb.Until(gap=GAP, steps=10**6)
    return gb.Setup(problem(), net, start, gb.Descent(LR), until, key=seed)


class Figure:
    """The figure; how many steps it takes is known once it has been drawn."""

    def __init__(self, widths: tuple[int, ...], until: gb.Until | None):
        self.widths, self.until, self.steps = widths, until, {}

    def run(self) -> None:
        """All runs, in one sweep."""
        build = functools.partial(setup, until=self.until)
        over: dict[str, Any] = {"width": self.widths, "seed": range(RUNS)}
        done = gb.sweep(build, over, progress=False)["stopped_at"].sum("seed")
        self.steps = {width: int(done.sel(width=width)) for width in self.widths}


def workloads(quick: bool) -> list[Workload]:
    """The steps of the others are counted from what gradbias took."""
    from . import plain_jax, rivals
    from . import torch_loops as loops

    widths = WIDTHS[:2] if quick else WIDTHS
    figure = Figure(widths, gb.Until(steps=1000) if quick else None)

    def arms(width: int, steps: int) -> dict[str, Arm]:
        one = setup(width, 0)
        timed = 100_000 // width
        return {
            rivals.ONE_BY_ONE: Arm(lambda: plain_jax.full_batch([one], False), steps, timed),
            rivals.LOOP: Arm(lambda: loops.full_batch(one), steps, timed),
            rivals.TUNED: Arm(lambda: loops.full_batch(one, tuned=True), steps, timed),
        }

    def parts() -> list[Part]:
        return [Part(f"h={width}", arms(width, steps)) for width, steps in figure.steps.items()]

    def difference() -> float:
        few = [setup(width, 0) for width in widths[:2]]
        jax = lambda one: plain_jax.full_batch([one], False)  # noqa: E731
        return max(largest_difference(few, loops.full_batch), largest_difference(few, jax))

    return [Workload("W3", 600, figure.run, parts, difference, 1)]
