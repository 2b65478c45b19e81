"""W5 without a run: the limiting flow of label-noise SGD on diagonal nets, T = 5."""

import functools
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import gradbias as gb
from gradbias.theory import diagonal

from .protocol import Check, Part, Workload, seconds
from .w5 import NET, problem

T, LR, MEMBERS = 5.0, 1e-3, 64  # single samples are stable below 0.0025
STEPS = round(T / LR**2)


def setup(seed: int = 0, steps: int = STEPS) -> gb.Setup:
    """One member: u = v = 1, label noise of variance one, one sample a step."""
    noise = gb.LabelNoise(1.0, batch_size=1)
    params = gb.init.constant(NET, 1.0)
    return gb.Setup(problem(), NET, params, gb.Descent(LR, noise), gb.Until(steps=steps), key=seed)


def exact() -> np.ndarray:
    """θ at T, by shrinking the start and one dual problem."""
    u, v = diagonal.limiting_flow(problem(), {"u": np.ones(100), "v": np.ones(100)}, T, 1.0)
    return u**2 - v**2


def integrated() -> np.ndarray:
    """The same by the general integrator, which knows nothing of diagonal nets."""
    noise = gb.LabelNoise(1.0, batch_size=1)
    limit = setup().replace(dynamics=gb.Limit(noise), until=gb.Until(time=T), save_at=[0.0])
    return np.asarray(gb.simulate(limit, progress=False).theta)


def workloads(quick: bool) -> list[Any]:
    """Against torch's loop for the ensemble, and against our own engine, extrapolated."""
    from . import rivals

    steps = 10_000 if quick else 100_000

    def difference() -> float:
        return float(np.abs(exact() - integrated()).max())

    def parts() -> list[Part]:
        members = [setup(seed) for seed in range(MEMBERS)]
        return [Part("SGD", rivals.descent(members, STEPS, vmap=2_000, one_by_one=2_000))]

    ensemble = functools.partial(_share, steps, 1, exact)
    member = functools.partial(_share, steps, MEMBERS, exact)
    general = functools.partial(_share, steps, 1, integrated)
    return [
        Workload("W5 limit", 1e5, exact, parts, difference),
        Check("W5 limit/ensemble", ensemble, 1 / 1000, "of its time"),
        Check("W5 limit/member", member, 1 / 50, "of its time"),
        Check("W5 gb.Limit/ens.", general, 1 / 50, "of its time"),
    ]


def _share(steps: int, among: int, limit: Callable[[], np.ndarray]) -> tuple[float, dict[str, Any]]:
    """CPU time of a limit over that of the ensemble with all its steps, or of one member in it."""
    limit()
    whole = [cost / among for cost in _ensemble(steps)]
    ours = [seconds(limit)[0] for _ in range(5)]
    value = statistics.median(ours) / statistics.median(whole)
    return value, {"limit_seconds": ours, "extrapolated_seconds": whole, "timed_steps": steps}


@functools.cache
def _ensemble(steps: int) -> list[float]:
    """CPU seconds of all members on our own engine, extrapolated from this many steps."""

    def job() -> None:
        gb.sweep(functools.partial(setup, steps=steps), {"seed": range(MEMBERS)}, progress=False)

    job()
    return [seconds(job)[0] * STEPS / steps for _ in range(3)]
