"""W5: label-noise SGD on diagonal nets u² − v², one sample a step, an ensemble of 100."""

import functools

import gradbias as gb

from .agreement import difference_together, largest_difference
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
    from . import batched_torch, plain_jax, rivals
    from . import torch_loops as loops

    steps = 2_000 if quick else 20_000
    over = {"start": [0.1 * k for k in range(1, 11)], "seed": range(10)}

    def job() -> None:
        gb.sweep(functools.partial(setup, steps=steps), over, progress=False)

    def parts() -> list[Part]:
        members = [setup(start, seed) for start in over["start"] for seed in over["seed"]]
        return [Part("SGD", rivals.descent(members, steps, vmap=2_000, one_by_one=2_000))]

    def difference() -> float:
        few = [setup(0.5, 0), setup(1.0, 3)]
        return max(
            largest_difference(few, loops.minibatch),
            difference_together(few, batched_torch.minibatch),
            difference_together(few, functools.partial(plain_jax.minibatch, vmap=True)),
        )

    return [Workload("W5 simulate", 8, job, parts, difference)]
