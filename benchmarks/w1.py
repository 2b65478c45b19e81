"""W1: rank-1 nets, 10 scales × 10 inits on one data set, GD and SGD, 20 000 steps, recorded."""

import functools
import os
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradbias as gb

from .agreement import difference_together, largest_difference
from .protocol import Arm, Part, Workload

BATCH = 4
NET = gb.Rank1(d=100, depth=3, width=100)


@functools.cache
def problem() -> gb.Regression:
    """The data set: the paper's sizes."""
    return gb.problems.gaussian(n=40, d=100, informative=20, key=0)


def setup(scale: float, seed: int, noise: Any = None, steps: int = 20_000) -> gb.Setup:
    """One member: a balanced start of this norm in a random direction."""
    direction = np.random.default_rng(seed).normal(size=100)
    start = gb.init.balanced(NET, scale * direction / np.linalg.norm(direction), key=seed)
    return gb.Setup(problem(), NET, start, gb.Descent(1e-3, noise), gb.Until(steps=steps), key=seed)


def run(steps: int = 20_000, seeds: int = 10, noises: tuple[Any, ...] = (None, BATCH)) -> None:
    """The whole job."""
    for noise in noises:
        law = None if noise is None else gb.Minibatch(noise)
        build = functools.partial(setup, noise=law, steps=steps)
        over = {"scale": np.geomspace(0.01, 10, 10), "seed": range(seeds)}
        gb.sweep(build, over, progress=False)


def members(noise: Any = None, seeds: int = 10) -> list[gb.Setup]:
    """All members of one kind."""
    return [setup(at, k, noise) for at in np.geomspace(0.01, 10, 10) for k in range(seeds)]


def workloads(quick: bool) -> list[Workload]:
    """Warm, and from a fresh process that imports, compiles and runs."""
    from . import batched_torch, plain_jax, rivals
    from . import torch_loops as loops

    steps, few = (2_000 if quick else 20_000), [(0.1, 0), (1.0, 3), (10.0, 9)]
    noise = gb.Minibatch(BATCH)

    def difference() -> float:
        gd, sgd = [setup(*at) for at in few], [setup(*at, noise) for at in few]
        return max(
            largest_difference(gd, loops.full_batch),
            largest_difference(sgd, loops.minibatch),
            difference_together(gd, batched_torch.full_batch),
            difference_together(sgd, batched_torch.minibatch),
            difference_together(gd, functools.partial(plain_jax.full_batch, vmap=True)),
            difference_together(sgd, functools.partial(plain_jax.minibatch, vmap=False)),
        )

    def parts() -> list[Part]:
        return [
            Part("GD", rivals.descent(members(), steps, vmap=2_000, one_by_one=2_000)),
            Part("SGD", rivals.descent(members(noise), steps, vmap=2_000, one_by_one=2_000)),
        ]

    def from_python() -> list[Part]:
        arm = Arm(lambda: PlainJaxProcess(steps), steps, steps, seconds_of_children)
        return [Part("whole", {"plain jax, from a fresh process": arm})]

    job = functools.partial(run, steps)
    fresh = functools.partial(from_a_fresh_process, steps)
    nothing = lambda: 0.0  # noqa: E731  (its arms draw by themselves)
    return [
        Workload("W1", 12, job, parts, difference),
        Workload("W1 fresh process", 1, fresh, from_python, nothing, 3, seconds_of_children),
    ]


class PlainJaxProcess:
    """W1 by a Python that knows NumPy and jax alone."""

    def __init__(self, steps: int):
        self.steps = steps

    def run(self, steps: int) -> None:
        """The whole job; `steps` are its own."""
        script = pathlib.Path(__file__).parent / "w1_plain_jax.py"
        subprocess.run([sys.executable, str(script), str(steps)], check=True)

    def path(self, steps: int) -> np.ndarray:
        """Of nobody: it draws by itself."""
        raise NotImplementedError("a process of its own has no path to compare")


def from_a_fresh_process(steps: int) -> None:
    """The same job by a Python that has imported nothing."""
    command = [sys.executable, "-c", f"from benchmarks.w1 import run; run({steps})"]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def seconds_of_children(work: Callable[[], Any]) -> tuple[float, float]:
    """CPU and wall seconds of what a call starts and waits for."""

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before, began = cpu(), time.perf_counter()
    work()
    return cpu() - before, time.perf_counter() - began
