"""What a workload is, and how its arms are timed."""

import functools
import os
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np


class Rival(Protocol):
    """A training loop of somebody else, of one member or of all of them."""

    def run(self, steps: int) -> None:
        """Take some steps."""

    def path(self, steps: int) -> np.ndarray:
        """The predictors of its members, at the start and after each step."""
        ...


Clock = Callable[[Callable[[], Any]], tuple[float, float]]


class Arm(NamedTuple):
    """One way to do a part of a job without gradbias.

    Attributes:
        make: makes the loop.
        steps: how many steps of the loop do the whole part: those of all members if it trains
            one member, those of one member if it trains all of them at once.
        timed: how many of them are timed at a time.
        clock: the seconds of a call, CPU and wall.
    """

    make: Callable[[], Rival]
    steps: int
    timed: int = 200
    clock: Clock | None = None


class Part(NamedTuple):
    """Steps of one kind in a job, and who can do them.

    Attributes:
        name: which.
        arms: by the name that they have in the table.
    """

    name: str
    arms: dict[str, Arm]


class Workload(NamedTuple):
    """A job, done by gradbias and by others.

    Attributes:
        name: what it is called in the table.
        target: how many times faster than the best of the others gradbias must be.
        job: the whole of it, through the public face.
        parts: the same job as loops of others; asked for when the job has been done once.
        difference: the largest difference between the trajectories.
        rounds: how often each takes its turn.
        clock: the seconds of the job, CPU and wall.
    """

    name: str
    target: float
    job: Callable[[], Any]
    parts: Callable[[], list[Part]]
    difference: Callable[[], float]
    rounds: int = 5
    clock: Clock | None = None


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
    """Time all arms in turns; every timing is kept."""
    difference, clock = work.difference(), work.clock or seconds
    work.job()
    parts = work.parts()
    loops = {(p.name, name): arm.make() for p in parts for name, arm in p.arms.items()}
    raw: dict[str, Any] = {"gradbias": [], **{p.name: {a: [] for a in p.arms} for p in parts}}
    for part in parts:
        for name, arm in part.arms.items():
            loops[part.name, name].run(arm.timed)  # compiled, and in the caches
    for _ in range(work.rounds):
        raw["gradbias"].append(clock(work.job))
        for part in parts:
            for name, arm in part.arms.items():
                run = functools.partial(loops[part.name, name].run, arm.timed)
                raw[part.name][name].append((arm.clock or seconds)(run))
    found = _ratios(parts, raw) | {"target": work.target, "max_difference": difference}
    return {**found, "raw_seconds_cpu_wall": raw}


def _ratios(parts: list[Part], raw: dict[str, Any]) -> dict[str, Any]:
    """Medians over those of gradbias; of CPU time, which neighbours disturb least.

    The best rival takes for each part the arm that is fastest there.
    """

    def whole(part: Part, arm: str, kind: int) -> float:
        timed = part.arms[arm]
        return _median(raw[part.name][arm], kind) / timed.timed * timed.steps

    ours = [_median(raw["gradbias"], kind) for kind in (0, 1)]
    best = [min(part.arms, key=lambda arm, part=part: whole(part, arm, 0)) for part in parts]
    fastest = [
        sum(whole(part, arm, kind) for part, arm in zip(parts, best, strict=True))
        for kind in (0, 1)
    ]
    everywhere = [a for a in parts[0].arms if all(a in part.arms for part in parts)]
    theirs = {arm: sum(whole(part, arm, 0) for part in parts) for arm in everywhere}
    return {
        "ratio": fastest[0] / ours[0],
        "ratio_wall": fastest[1] / ours[1],
        "best": dict(zip([part.name for part in parts], best, strict=True)),
        "ratios": {arm: value / ours[0] for arm, value in theirs.items()},
        "gradbias_seconds": ours[0],
        "seconds": theirs,
        "steps": {p.name: {a: arm.steps for a, arm in p.arms.items()} for p in parts},
        "timed_steps": {p.name: {a: arm.timed for a, arm in p.arms.items()} for p in parts},
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
