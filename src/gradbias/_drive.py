"""The host's half of a run: chunk after chunk, until the state stops or its time is up."""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ._chunks import Plan, begin, plan_chunk, run_chunk, segments_that_fit
from ._progress import Progress
from ._recorder import Recorder
from ._setup import Setup
from .dynamics import Dynamics, State, Stepper, System
from .dynamics._protocol import CONVERGED, DIVERGED, FLOOR, RUNNING, STATIONARY
from .numerics.precision import to_numpy

CALL_SECONDS = 0.15  # a compiled call: long enough to hide its overhead, short for Ctrl-C
FIRST_CALLS = 64  # steps of the first call, before anything has been timed


class Start(NamedTuple):
    """A run in the coordinates it is computed in.

    Attributes:
        system: problem and net, reduced or not.
        stepper: the compiled half of the dynamics.
        dynamics: the host's half.
        params: where it starts.
        lift: from these coordinates to all parameters; None if they are the same.
        stats: what was reduced, or why not.
    """

    system: System
    stepper: Stepper
    dynamics: Dynamics
    params: Any
    lift: Any
    stats: dict[str, Any]


class Stop(NamedTuple):
    """Where a run came to a halt.

    Attributes:
        state: the last one, finite even if the run diverged.
        at: the step or time of the halt.
        first_gap: the gap at the start.
    """

    state: State
    at: float
    first_gap: float


class _Lowest(NamedTuple):
    """The lowest gap so far and the clock at which it was seen."""

    gap: float
    clock: float

    def updated(self, state: State, gaps: np.ndarray) -> "_Lowest":
        seen = float(np.min(gaps, where=np.isfinite(gaps), initial=np.inf))
        return _Lowest(seen, float(state.clock)) if seen < self.gap else self

    def is_floor(self, state: State, first_gap: float) -> bool:
        """Rounding keeps descent above any smaller gap: twice as many steps brought nothing."""
        return self.gap <= 1e-20 * first_gap and float(state.clock) > 2 * self.clock + 10_000


def drive(setup: Setup, start: Start, recorder: Recorder, bar: Progress) -> Stop:
    """Run to the end, hand the saves to the recorder, show progress."""
    stepwise = setup.dynamics.counts_steps
    limit = np.inf if setup.limit is None else setup.limit
    goal = np.asarray(-1.0 if setup.until.gap is None else setup.until.gap)
    state = _first_state(start, stepwise)
    saves = setup.save_clock
    slots, calls = segments_that_fit((state.params, state.sums)), FIRST_CALLS
    every = setup.until.check_every if stepwise else None
    row, first, first_gap, lowest = 0, True, np.inf, _Lowest(np.inf, 0)
    while True:
        inputs, stop = start.dynamics.drive(state, calls)
        plan = plan_chunk(state.clock.item(), saves[row:], every, min(stop, limit), slots, first)
        began = time.monotonic()
        state, trail = to_numpy(run_chunk(start.system, start.stepper, state, plan, inputs, goal))
        calls = calls if first else _next_calls(calls, time.monotonic() - began)
        row = _take_saves(saves, row, plan, trail, recorder)
        first_gap, first = float(trail.gaps[0]) if first else first_gap, False
        lowest = lowest.updated(state, trail.gaps)
        if stepwise and setup.limit is None and lowest.is_floor(state, first_gap):
            state = _with_code(state, FLOOR)
        bar.update(*_how_far(setup, state, trail.gaps, first_gap))
        if state.code != RUNNING or state.clock >= limit:
            break
    if state.code == DIVERGED and stepwise:
        return Stop(*_first_bad_step(start, state, plan, goal), first_gap)
    if state.code in (STATIONARY, FLOOR) or (state.code == CONVERGED and not stepwise):
        for left in range(row, len(saves)):
            recorder.take(left, state.params, state.sums)
    return Stop(state, state.clock.item(), first_gap)


def _first_state(start: Start, stepwise: bool) -> State:
    zero = np.asarray(0, np.int64) if stepwise else np.asarray(0.0)
    sums, memory = begin(start.system, start.stepper, start.params)
    return to_numpy(State(start.params, sums, zero, memory, np.asarray(RUNNING, np.int32)))


def _with_code(state: State, code: int) -> State:
    return eqx.tree_at(lambda s: s.code, state, np.asarray(code, np.int32))


def _next_calls(calls: int, seconds: float) -> int:
    wanted = calls * CALL_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, max(calls // 8, 1), min(calls * 8, 10**9)))


def _take_saves(saves: np.ndarray, row: int, plan: Plan, trail: Any, recorder: Recorder) -> int:
    """Hand the snapshots that fall on a save to the recorder; returns the next row."""
    for j, target in enumerate(plan.targets):
        reached = trail.clocks[j] == target and trail.codes[j] != DIVERGED
        if row < len(saves) and reached and target == saves[row]:
            saved = (trail.params, trail.sums)
            recorder.take(row, *jax.tree.map(lambda leaf, j=j: leaf[j], saved))
            row += 1
        if trail.codes[j] != RUNNING:
            break
    return row


def _first_bad_step(start: Start, state: State, plan: Plan, goal: np.ndarray) -> tuple[State, int]:
    """The first step with parameters that are not finite, by bisection from the last good state."""
    low, slots = int(state.clock), len(plan.targets)
    high = int(plan.targets[np.searchsorted(plan.targets, low, side="right")])
    while high - low > 1:
        middle = (low + high) // 2
        inputs, _ = start.dynamics.drive(state, middle - low)
        once = Plan(np.full(slots, middle), np.zeros(slots, bool))
        fresh = _with_code(state, RUNNING)
        tried, _ = to_numpy(run_chunk(start.system, start.stepper, fresh, once, inputs, goal))
        if tried.code == DIVERGED:
            high = middle
        else:
            low, state = middle, tried
    return _with_code(state, DIVERGED), high


def _how_far(setup: Setup, state: State, gaps: np.ndarray, first_gap: float) -> tuple[float, str]:
    """The fraction done, by the clock or by the gap, and a note."""
    known = gaps[np.isfinite(gaps)]
    gap, goal = float(known[-1]) if len(known) else np.nan, setup.until.gap
    fraction = 0.0 if setup.limit is None else float(state.clock) / setup.limit
    if goal and 0 < gap < first_gap and goal < first_gap:
        fraction = max(fraction, float(np.log(first_gap / gap) / np.log(first_gap / goal)))
    unit = "step" if setup.dynamics.counts_steps else "time"
    return min(fraction, 1.0), f"{unit} {float(state.clock):g}, gap {gap:.2e}"
