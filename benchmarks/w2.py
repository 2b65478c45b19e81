"""W2: deep linear nets, four layers of 100 × 100, GD; three inits."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import gradbias as gb

from .agreement import difference_together, largest_difference
from .protocol import Part, Workload

NET = gb.Deep([100, 100, 100, 100, 1])
DIRECTION = np.random.default_rng(0).normal(size=100) / 10


def gaussian(seed: int) -> dict[str, Any]:
    """Entries N(0, 1/100): nothing to reduce but the inputs."""
    return gb.init.gaussian(NET, 0.1, key=seed)


def orthogonal(seed: int) -> dict[str, Any]:
    """Orthogonal hidden layers: they shrink to n + 1."""
    rng, last = np.random.default_rng(seed), gaussian(seed)["W4"]
    frames = [np.linalg.qr(rng.normal(size=(100, 100)))[0] for _ in range(3)]
    return {"W1": 0.5 * frames[0], "W2": frames[1], "W3": frames[2], "W4": last}


def balanced(seed: int) -> dict[str, Any]:
    """Balanced: one dimension a layer."""
    return gb.init.balanced(NET, DIRECTION, key=seed)


@functools.cache
def problem() -> gb.Regression:
    """The data set of W1."""
    return gb.problems.gaussian(n=40, d=100, informative=20, key=0)


def setup(init: Callable[[int], dict[str, Any]], steps: int, seed: int) -> gb.Setup:
    """One member."""
    return gb.Setup(problem(), NET, init(seed), gb.Descent(1e-3), gb.Until(steps=steps), key=seed)


def run(init: Callable[[int], dict[str, Any]], steps: int, members: int) -> None:
    """The whole job."""
    gb.sweep(functools.partial(setup, init, steps), {"seed": range(members)}, progress=False)


def workloads(quick: bool) -> list[Workload]:
    """One for each init; the faster a member, the more of them."""
    from . import batched_torch, plain_jax, rivals
    from . import torch_loops as loops

    def workload(init: Callable[[int], dict[str, Any]], target: float, members: int) -> Workload:
        steps = 1_000 if quick else 20_000
        job = functools.partial(run, init, steps, members)
        few = [setup(init, steps, seed) for seed in (0, 1)]

        def parts() -> list[Part]:
            timed = 2_000 // members
            each = [setup(init, steps, seed) for seed in range(members)]
            return [Part("GD", rivals.descent(each, steps, timed, 5 * timed, timed))]

        def difference() -> float:
            return max(
                largest_difference(few, loops.full_batch),
                difference_together(few, batched_torch.full_batch),
                difference_together(few, functools.partial(plain_jax.full_batch, vmap=False)),
            )

        return Workload(f"W2 {init.__name__}", target, job, parts, difference)

    return [
        workload(gaussian, 2.5, 10),
        workload(orthogonal, 12, 10),
        workload(balanced, 150, 100),
    ]
