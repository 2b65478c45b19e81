"""What a workload is, and how its two arms are timed."""

import functools
import os
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

ARMS = {"torch": False, "torch_tuned": True}  # is it the tuned loop?


class Loop(Protocol):
    """A training loop of one member in torch."""

    def run(self, steps: int, tuned: bool = False) -> None:
        """Take some steps."""

    def path(self, steps: int) -> np.ndarray:
        """The predictor at the start and after each step."""


class Part(NamedTuple):
    """Steps of one kind in a job.

    Attributes:
        name: which.
        loop: makes torch's loop for them.
        steps: how many of them the job takes, members × steps.
        timed: how many of them are timed at a time.
    """

    name: str
    loop: Callable[[], Loop]
    steps: int
    timed: int = 200


class Workload(NamedTuple):
    """A job, done by gradbias and by a loop in torch.

    Attributes:
        name: what it is called in the table.
        target: how many times faster gradbias must be.
        job: the whole of it, through the public face.
        parts: the same job as loops in torch; asked for when the job has been done once.
        difference: the largest difference between the two trajectories.
        rounds: how often both arms take their turn.
        clock: the seconds of the job, CPU and wall.
    """

    name: str
    target: float
    job: Callable[[], Any]
    parts: Callable[[], list[Part]]
    difference: Callable[[], float]
    rounds: int = 11
    clock: Callable[[Callable[[], Any]], tuple[float, float]] | None = None


class Check(NamedTuple):
    """Something that is measured against a limit, without torch.

    Attributes:
        name: what it is called in the table.
        measure: returns the value, and raw numbers to keep.
        limit: the most that the value may be.
        unit: of the value.
    """

    name: str
    measure: Callable[[], tuple[float, dict[str, Any]]]
    limit: float
    unit: str


def seconds(work: Callable[[], Any]) -> tuple[float, float]:
    """CPU and wall seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def on_one_core() -> None:
    """Both arms on one core; before jax or torch start, so that both have one thread."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in ("OMP", "MKL", "OPENBLAS"):
        os.environ[f"{name}_NUM_THREADS"] = "1"


def compare(work: Workload) -> dict[str, Any]:
    """Time both arms in turns; every timing is kept."""
    difference, clock = work.difference(), work.clock or seconds
    work.job()
    parts = work.parts()
    loops = [part.loop() for part in parts]
    raw: dict[str, Any] = {"gradbias": [], **{arm: {p.name: [] for p in parts} for arm in ARMS}}
    for loop in loops:
        loop.run(20)
    for _ in range(work.rounds):
        raw["gradbias"].append(clock(work.job))
        for part, loop in zip(parts, loops, strict=True):
            for arm, tuned in ARMS.items():
                taken = seconds(functools.partial(loop.run, part.timed, tuned))
                raw[arm][part.name].append(taken)
    ratios = _ratios(work.target, parts, raw)
    return {**ratios, "max_difference": difference, "raw_seconds_cpu_wall": raw}


def _ratios(target: float, parts: list[Part], raw: dict[str, Any]) -> dict[str, Any]:
    """The median of one arm over that of the other; of CPU time, which neighbours disturb least."""

    def whole(arm: str, kind: int) -> float:
        return sum(_median(raw[arm][part.name], kind) / part.timed * part.steps for part in parts)

    ours = [_median(raw["gradbias"], kind) for kind in (0, 1)]
    return {
        "ratio": whole("torch", 0) / ours[0],
        "target": target,
        "ratio_wall": whole("torch", 1) / ours[1],
        "ratio_to_tuned_loop": whole("torch_tuned", 0) / ours[0],
        "gradbias_seconds": ours[0],
        "torch_seconds": whole("torch", 0),
        "steps": {part.name: part.steps for part in parts},
        "timed_steps": {part.name: part.timed for part in parts},
    }


def _median(pairs: Iterable[tuple[float, float]], kind: int) -> float:
    return statistics.median(pair[kind] for pair in pairs)


def check(item: Check) -> dict[str, Any]:
    """Measure; the ratio is how far below its limit it is, so that 1 is enough."""
    value, raw = item.measure()
    return {
        "ratio": item.limit / value,
        "target": 1.0,
        "max_difference": 0.0,
        "value": value,
        "limit": item.limit,
        "unit": item.unit,
        "raw": raw,
    }
