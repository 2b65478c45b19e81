"""W1: rank-1 nets, 10 scales × 10 inits on one data set, GD and SGD, 20 000 steps, recorded."""

import functools
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradbias as gb

from .agreement import largest_difference
from .protocol import Part, Workload

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


def workloads(quick: bool) -> list[Workload]:
    """Warm, and from a fresh process that imports, compiles and runs."""
    from . import torch_loops as loops

    steps, few = (2_000 if quick else 20_000), [(0.1, 0), (1.0, 3), (10.0, 9)]
    noise = gb.Minibatch(BATCH)

    def difference() -> float:
        gd = largest_difference([setup(*at) for at in few], loops.full_batch)
        sgd = largest_difference([setup(*at, noise) for at in few], loops.minibatch)
        return max(gd, sgd)

    def parts() -> list[Part]:
        return [
            Part("GD", lambda: loops.full_batch(setup(1.0, 0)), 100 * steps),
            Part("SGD", lambda: loops.minibatch(setup(1.0, 0, noise)), 100 * steps),
        ]

    job = functools.partial(run, steps)
    fresh = functools.partial(from_a_fresh_process, steps)
    return [
        Workload("W1", 1500, job, parts, difference),
        Workload("W1 fresh process", 300, fresh, parts, difference, 5, seconds_of_children),
    ]


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
