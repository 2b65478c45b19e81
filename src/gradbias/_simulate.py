"""Setup → Run: reduce, advance in compiled chunks driven from the host, lift, record."""

import time
from typing import Any, NamedTuple

import jax
import numpy as np

from ._chunks import Plan, System, begin, plan_chunk, run_chunk, segments_that_fit, slope
from ._progress import Progress
from ._recorder import Recorder, lifted
from ._run import Run
from ._setup import Setup
from ._status import Ending, Status
from .dynamics import Dynamics, Gap, State
from .dynamics._protocol import CONVERGED, DIVERGED, FAILED, FLOOR, RUNNING, STATIONARY
from .nets import LinearNet
from .nets._base import as_matrix
from .numerics.compilations import count_compilations
from .numerics.precision import host, to_numpy
from .problems._base import Quadratic
from .reductions import reduce as find_reduction

CALL_SECONDS = 0.15  # a compiled call: long enough to hide its overhead, short for Ctrl-C
FIRST_CALLS = 64  # steps of the first call, before anything has been timed


class _Start(NamedTuple):
    """A run in the coordinates it is computed in."""

    system: System
    dynamics: Dynamics
    params: Any
    lift: Any
    stats: dict[str, Any]


class _Best(NamedTuple):
    """The lowest gap so far and the step after which it has not been undercut."""

    gap: float
    at: int

    def updated(self, state: State, gaps: np.ndarray) -> "_Best":
        seen = np.min(gaps, where=np.isfinite(gaps), initial=np.inf)
        return _Best(float(seen), int(state.clock)) if seen < self.gap else self

    def is_floor(self, state: State, first_gap: float) -> bool:
        """Descent that only a gap could end, and that rounding keeps above it, ends here."""
        return bool(self.gap <= 1e-20 * first_gap and state.clock > 2 * self.at + 10_000)


@host
def simulate(setup: Setup, reduce: bool = True, progress: bool | None = None) -> Run:
    """Run a setup.

    Args:
        setup: what to run.
        reduce: use the exact closure where there is one; the result is the same to 1e-10.
        progress: show a line while it runs; by default where a person may be looking.

    Returns:
        The run: `run.data` (an xarray.Dataset), `run.final`, `run.theta`, `run.status`.
    """
    if not isinstance(setup, Setup):
        raise ValueError(f"setup must be a gb.Setup, got {type(setup).__name__}")
    began = time.monotonic()
    with count_compilations() as compilations:
        start = _start(setup, reduce)
        recorder = Recorder(setup, start.lift, start.params)
        with Progress(repr(setup.net), progress) as bar:
            state, status = _drive(setup, start, recorder, bar)
        values = recorder.finish()
        final = state.params if start.lift is None else to_numpy(lifted(start.lift, state.params))
    stats = {
        **start.stats,
        "compilations": compilations.count,
        "seconds": time.monotonic() - began,
    }
    return Run.of(setup, values, final, _predictor(setup, final), status, stats)


def _predictor(setup: Setup, final: Any) -> np.ndarray | None:
    if not isinstance(setup.net, LinearNet):
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # the last state of a run that diverged
        return setup.problem.at_edge(as_matrix(np.asarray(setup.net.predictor(final))))


def _start(setup: Setup, reduce: bool) -> _Start:
    problem, net, dynamics, params = setup.problem, setup.net, setup.dynamics, setup.params
    stepper, lift = dynamics.stepper(params), None
    stats: dict[str, Any] = {"reduction": "none", "certificate": None, "reason": "reduce=False"}
    if reduce:
        found = find_reduction(problem, net, params)
        small = None if isinstance(found, str) else dynamics.in_basis(problem.row_space)  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(found, str) or small is None:
            stats["reason"] = found if isinstance(found, str) else "the noise leaves the row space"
        else:
            stats = {
                "reduction": f"{'-'.join(map(str, net.chain))} to {'-'.join(map(str, found.net.dims))}",  # pyright: ignore[reportAttributeAccessIssue]
                "certificate": found.certificate,
                "reason": "exact closure",
            }
            problem, net, lift = found.problem, found.net, found.lift
            params, dynamics = found.params, small
            stepper = small.stepper(setup.params)
    quadratic = isinstance(net, LinearNet) and isinstance(problem, Quadratic)
    gap = Gap(problem.excess() if quadratic else None)
    return _Start(System(problem, net, stepper, gap), dynamics, params, lift, stats)


def _drive(setup: Setup, start: _Start, recorder: Recorder, bar: Progress) -> tuple[State, Status]:
    """Chunk after chunk, until the state stops or its time is up."""
    until, limit = setup.until, np.inf if setup.limit is None else setup.limit
    goal = np.asarray(-1.0 if until.gap is None else until.gap)
    stepwise = setup.dynamics.axis == "step"
    every = until.check_every if stepwise else None
    zero = np.asarray(0, np.int64) if stepwise else np.asarray(0.0)
    memory = begin(start.system, start.params)
    state = to_numpy(State(start.params, zero, memory, np.asarray(RUNNING, np.int32)))
    slots, calls = segments_that_fit(start.params), FIRST_CALLS
    row, first_gap, first, best = 0, np.inf, True, _Best(np.inf, 0)
    while state.code == RUNNING and (first or state.clock < limit):
        drive, stop = start.dynamics.drive(state, calls)
        plan = plan_chunk(
            state.clock.item(), setup.save_at[row:], every, min(stop, limit), slots, first
        )
        began = time.monotonic()
        state, trail = to_numpy(run_chunk(start.system, state, plan, drive, goal))
        if not first:
            calls = _next_calls(calls, time.monotonic() - began)
        row = _take_saves(setup.save_at, row, plan, trail, recorder)
        first_gap, first = trail[2][0] if first else first_gap, False
        best = best.updated(state, trail[2])
        if setup.limit is None and stepwise and best.is_floor(state, first_gap):
            state = State(state.params, state.clock, state.memory, np.asarray(FLOOR, np.int32))
        bar.update(*_how_far(state, trail, limit, goal, first_gap, setup.dynamics.axis))
    if state.code == DIVERGED and stepwise:
        state, at = _first_bad_step(start, state, plan, goal)
    else:
        at = state.clock.item()
    ending = _ending(setup, start, state, first_gap)
    if state.code in (STATIONARY, FLOOR) or (state.code == CONVERGED and not stepwise):
        for left in range(row, len(setup.save_at)):
            recorder.take(left, state.params)
    if state.code == STATIONARY and np.isfinite(limit):
        at = limit
    return state, Status(ending, at, setup.dynamics.axis)


def _next_calls(calls: int, seconds: float) -> int:
    wanted = calls * CALL_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, max(calls // 8, 1), min(calls * 8, 10**9)))


def _take_saves(saves: np.ndarray, row: int, plan: Plan, trail: Any, recorder: Recorder) -> int:
    """Hand the snapshots that fall on a save to the recorder; returns the next row."""
    snapshots, clocks, _, codes = trail
    for j, target in enumerate(plan.targets):
        reached = clocks[j] == target and codes[j] != DIVERGED
        if row < len(saves) and reached and target == saves[row]:
            recorder.take(row, jax.tree.map(lambda leaf, j=j: leaf[j], snapshots))
            row += 1
        if codes[j] != RUNNING:
            break
    return row


def _first_bad_step(start: _Start, state: State, plan: Plan, goal: np.ndarray) -> tuple[State, int]:
    """The first step at which the parameters are not finite, by bisection from the last good state."""
    low, slots = int(state.clock), len(plan.targets)
    high = int(plan.targets[np.searchsorted(plan.targets, low, side="right")])
    while high - low > 1:
        middle = (low + high) // 2
        drive, _ = start.dynamics.drive(state, middle - low)
        fresh = State(state.params, state.clock, state.memory, np.asarray(RUNNING, np.int32))
        once = Plan(np.full(slots, middle), np.zeros(slots, bool))
        tried, _ = to_numpy(run_chunk(start.system, fresh, once, drive, goal))
        low, high = (low, middle) if tried.code == DIVERGED else (middle, high)
        state = state if tried.code == DIVERGED else tried
    return State(state.params, state.clock, state.memory, np.asarray(DIVERGED, np.int32)), high


def _ending(setup: Setup, start: _Start, state: State, first_gap: float) -> Ending:
    """Name the end; a vanishing gradient far from the minimum is a saddle, whatever stopped it."""
    simple = {
        CONVERGED: Ending.CONVERGED,
        DIVERGED: Ending.DIVERGED,
        FAILED: Ending.INTEGRATOR_FAILED,
    }
    if int(state.code) in simple:
        return simple[int(state.code)]
    stepwise = setup.dynamics.axis == "step"
    used_up = Ending.REACHED_STEPS if stepwise else Ending.REACHED_TIME
    if start.system.gap.excess is None and not hasattr(setup.problem, "X"):
        return used_up
    gap, squared = map(float, slope(start.system, state.params))
    elapsed = float(setup.dynamics.time(np.asarray([state.clock]))[0])
    # dL/dt = −‖∇L‖²: at this slope, how much of the gap would all the time so far remove?
    flat = squared * elapsed < 1e-6 * gap and gap > 1e-10 * first_gap
    if flat and start.system.gap.excess is not None and setup.dynamics.weight_decay == 0:
        return Ending.STUCK_AT_A_SADDLE
    if flat or (state.code != RUNNING and setup.dynamics.weight_decay != 0):
        return Ending.STATIONARY if setup.until.gap is not None else used_up
    if state.code == FLOOR or (state.code == STATIONARY and setup.until.gap is not None):
        return Ending.CONVERGED_TO_TOLERANCE
    return used_up


def _how_far(state, trail, limit, goal, first_gap, axis) -> tuple[float, str]:
    """The fraction done, by the clock or by the gap, and a note."""
    gaps = trail[2][np.isfinite(trail[2])]
    gap = float(gaps[-1]) if len(gaps) else np.nan
    fraction = float(state.clock) / limit if np.isfinite(limit) else 0.0
    if goal > 0 and gap > 0 and first_gap > goal:
        by_gap = np.log(first_gap / gap) / np.log(first_gap / float(goal))
        fraction = max(fraction, float(np.nan_to_num(by_gap)))
    return float(np.clip(fraction, 0, 1)), f"{axis} {float(state.clock):g}, gap {gap:.2e}"
