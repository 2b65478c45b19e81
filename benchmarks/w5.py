"""W5: label-noise SGD on diagonal nets u² − v², one sample a step, an ensemble of 100."""

import functools

import gradbias as gb

from .agreement import largest_difference
from .protocol import Part, Workload

NET = gb.Diagonal(100)


@functools.cache
def problem() -> gb.Regression:
    """40 Gaussian samples of a sparse teacher."""
    return gb.problems.sparse(n=40, d=100, nonzero=5, key=0, loss="half_mean")


def setup(start: float, seed: int, steps: int = 20_000) -> gb.Setup:
    """One member, below the stability limit of single samples."""
    noise = gb.LabelNoise(1.0, batch_size=1)
    params = gb.init.constant(NET, start)
    return gb.Setup(
        problem(), NET, params, gb.Descent(5e-4, noise), gb.Until(steps=steps), key=seed
    )


def workloads(quick: bool) -> list[Workload]:
    """All members as one sweep."""
    from . import torch_loops as loops

    steps = 2_000 if quick else 20_000
    over = {"start": [0.1 * k for k in range(1, 11)], "seed": range(10)}

    def job() -> None:
        gb.sweep(functools.partial(setup, steps=steps), over, progress=False)

    part = Part("SGD", lambda: loops.minibatch(setup(0.5, 0)), 100 * steps)
    few = [setup(0.5, 0), setup(1.0, 3)]
    difference = functools.partial(largest_difference, few, loops.minibatch)
    return [Workload("W5 simulate", 500, job, lambda: [part], difference)]
