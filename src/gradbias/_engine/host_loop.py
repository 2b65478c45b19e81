"""The host's half of a run: one compiled call after the other, until every member has stopped."""

import time
from collections.abc import Collection
from typing import Any, NamedTuple

import jax
import numpy as np

from ..dynamics import Dynamics, State, Stepper, System
from ..dynamics.protocol import DIVERGED, RUNNING, SPENT, STATIONARY, STIFF
from ..numerics.precision import to_numpy
from ..numerics.progress import Progress
from ..numerics.types import PyTree
from . import single_kernel
from .call_plan import Plan, plan_call, plan_end, segments_that_fit
from .compiled_loop import LoopOptions, Trail, begin, run_call
from .error_growth import ErrorGrowth
from .gap_watch import GapWatch
from .recorder import Recorder
from .saves import Saves
from .setup import Setup
from .stacking import Stack, bytes_of, fits_side_by_side, pick, stack
from .stop_checks import Ends, slopes

CALL_SECONDS = 0.15  # a compiled call: long enough to hide its overhead, short for Ctrl-C
NEVER = 2**62  # a step that no run reaches
GRAIN_WORK = 2**27  # numbers that a call touches at least before it ends
UNWATCHED = 1024  # steps between looks at a gap that decides nothing
FIRST_CALLS = 64  # steps of the first call, before anything has been timed


class Prepared(NamedTuple):
    """A run in the coordinates it is computed in.

    Attributes:
        setup: as the user gave it.
        system: problem and net, reduced or not.
        stepper: the compiled half of the dynamics.
        dynamics: the host's half.
        params: where it starts.
        lift: from these coordinates to all parameters; None if they are the same.
        record: the observables that are measured at saved states, made ready for the data.
        stats: what was reduced, or why not.
        rounding: the size of errors that may grow; see `reductions`.
    """

    setup: Setup
    system: System
    stepper: Stepper
    dynamics: Dynamics
    params: Any
    lift: Any
    record: dict[str, Any]
    stats: dict[str, Any]
    rounding: float = 0.0


class Stop(NamedTuple):
    """Where the members came to a halt; every field has an axis of members.

    Attributes:
        states: the last ones, finite even where a run diverged.
        clocks: where they halted; where a run diverged, the first step that is not finite.
        first_gaps: the gaps at the start.
        errors: the largest that a reduced run may have, relative to a layer, where rounding can
            grow.
    """

    states: State
    clocks: np.ndarray
    first_gaps: np.ndarray
    errors: np.ndarray


class MemberStack:
    """Members of one shape, advanced together.

    Args:
        starts: one for each member, equal in shape.
        differ: the names of the leaves of system and stepper that members have each for itself;
            None looks at these members alone.
        wanted: how many of them run; those behind only fill up the program. None for all.
    """

    def __init__(
        self,
        starts: list[Prepared],
        differ: Collection[str] | None = None,
        wanted: int | None = None,
    ):
        self.starts = starts
        self.wanted = len(starts) if wanted is None else wanted
        self.setups = [start.setup for start in starts]
        self.counts = starts[0].dynamics.counts_steps
        self.differ = differ
        self.stack: Stack = stack([(start.system, start.stepper) for start in starts], differ)
        goals = [-np.inf if s.goal is None else s.goal for s in self.setups]
        clock, never = (np.int64, NEVER) if self.counts else (np.float64, np.inf)
        limits = [never if s.limit is None else s.limit for s in self.setups]
        rests = np.asarray([start.dynamics.may_rest for start in starts])
        self.params = stack_all([start.params for start in starts])
        self.unknown = starts[0].system.gap.unknown
        first = None
        if self.unknown:
            first = to_numpy(slopes(self.stack, self.params)).gap
        self.ends = Ends(np.asarray(goals, np.float64), np.asarray(limits, clock), rests, first)
        self.unlimited = np.asarray([s.limit is None for s in self.setups])
        # Steps that adapt depend on rounding, which is another where members are side by side.
        self.side_by_side = self.counts and fits_side_by_side(starts[0].params, len(starts))
        every = self.setups[0].until.check_every
        if all(s.goal is None for s in self.setups):
            every = max(every, UNWATCHED)
        self.every = every if self.counts else None
        self.grain = min(every, _grain(starts))

    def first_states(self) -> State:
        """All members at their start."""
        zeros = np.zeros(len(self.starts), np.int64 if self.counts else np.float64)
        sums = {}
        memory = None
        one = self.starts[0]
        if one.stepper.remembers or one.system.tally is not None:
            sums, memory = begin(self.stack, self.params)
        codes = np.full(len(self.starts), RUNNING, np.int32)
        codes[self.wanted :] = SPENT
        slopes = None if one.system.growth is None else np.zeros(len(self.starts))
        return to_numpy(State(self.params, sums, zeros, memory, codes, slopes))

    def advance(
        self, states: State, plan: Plan, drives: PyTree, recorder: Recorder | None = None
    ) -> tuple[State, Trail]:
        """One compiled call, which also measures what the recorder wants."""
        views = None if recorder is None else recorder.views
        keeps_states = recorder is not None and self.keeps_states(recorder)
        how = LoopOptions(self.side_by_side, keeps_states, single_kernel.is_on())
        return to_numpy(run_call(self.stack, views, states, plan, drives, self.ends, how))

    def switch(self, states: State) -> State:
        """Members whose steppers found them stiff go on with those that are made for it."""
        stiff = states.code == STIFF
        if stiff.any():
            steppers = [(start.system, start.stepper.when_stiff) for start in self.starts]
            self.stack = stack(steppers, self.differ)
        return _with_codes(states, np.where(stiff, RUNNING, states.code))

    def segment_bytes(self, states: State, recorder: Recorder) -> int:
        """What a segment hands out."""
        params = states.params if self.keeps_states(recorder) else None
        return recorder.row_bytes + bytes_of((params, states.sums))

    def keeps_states(self, recorder: Recorder) -> bool:
        """Does anybody need the states at the ends of segments?"""
        return bool(recorder.plain) or bool(self.counts and self.unlimited.any())

    def drives(self, states: State, calls: int) -> tuple[Any, float]:
        """What the next stretch of every member needs, and how far it serves."""
        leaves, structure = jax.tree.flatten(states.memory)
        clocks = states.clock.tolist()
        limits = self.ends.limit.tolist()
        each: list[tuple[Any, float]] = []
        before = None
        for m, (start, clock, limit) in enumerate(zip(self.starts, clocks, limits, strict=True)):
            asked = id(start.dynamics), clock, limit
            if leaves or asked != before:
                memory = jax.tree.unflatten(structure, [leaf[m] for leaf in leaves])
                each.append(start.dynamics.drive(clock, memory, calls, limit))
            else:  # what the member before it needs
                each.append(each[-1])
            before = asked
        # A member that has stopped stays where it is and must not hold the others back.
        served = min(each[m][1] for m in np.flatnonzero(states.code == RUNNING))
        return stack_all([inputs for inputs, _ in each]), served

    def end_of_call(self, clock: float, served: float) -> float:
        """Where a call that may go up to `served` ends: never at a step that time decides."""
        limit = self.ends.limit.max().item()
        if served >= limit or not self.counts:
            return min(served, limit)
        return min(max(served // self.grain, clock // self.grain + 1) * self.grain, limit)

    def stops(self) -> np.ndarray:
        """Every clock value at which a segment has to end: saves and limits."""
        limits = self.ends.limit[~self.unlimited]
        return np.unique(np.concatenate([*(s.save_clock for s in self.setups), limits]))


def _grain(starts: list[Prepared]) -> int:
    """Steps that take a moment at most: a function of sizes alone, and so the same everywhere."""
    system = starts[0].system
    size = sum(np.size(p) for p in jax.tree.leaves(starts[0].params))
    samples = getattr(system.problem, "n", 1) if system.gap.excess is None else 1
    return int(np.clip(GRAIN_WORK // max(len(starts) * size * samples, 1), 1, 1024))


def stack_all(trees: list[Any]) -> PyTree:
    """Equal PyTrees with an axis of members in front of every leaf."""
    first = trees[0]
    count = len(trees)
    if all(tree is first for tree in trees):
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (count, *np.shape(leaf))), first)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def drive(ensemble: MemberStack, recorder: Recorder, bar: Progress) -> Stop:
    """Run all members to their ends, hand the saves to the recorder, show progress."""
    states = ensemble.first_states()
    stops = ensemble.stops()
    slots = segments_that_fit(ensemble.segment_bytes(states, recorder))
    calls = FIRST_CALLS
    watch = GapWatch(ensemble)
    saves = Saves(ensemble.setups, recorder)
    first = True
    bad_steps = np.full(len(states.clock), np.nan)
    errors = ErrorGrowth(ensemble.starts)
    while True:
        drives, served = ensemble.drives(states, calls)
        clock = states.clock[states.code == RUNNING].min().item()
        end = ensemble.end_of_call(clock, served)
        plan = plan_call(clock, stops, ensemble.every, end, slots, first, ensemble.grain)
        running = states.code == RUNNING
        began = time.monotonic()
        states, trail = ensemble.advance(states, plan, drives, recorder)
        calls = calls if first else _next_calls(calls, time.monotonic() - began)
        first = False
        states = watch.look(states, trail)
        saves.take(plan, trail, states.clock)
        errors.note(trail)
        # An adaptive solver has no steps to count: its clock says where it diverged.
        diverged = running & (states.code == DIVERGED) & ensemble.counts
        for m in np.flatnonzero(diverged).tolist():
            last, bad_steps[m] = _first_bad_step(ensemble, m, pick(states, [m]), plan, recorder)
            states = jax.tree.map(lambda all, one, m=m: _replaced(all, m, one[0]), states, last)
        paused = running & (states.code == STATIONARY)
        if paused.any():
            cycles = paused & ~_rest(ensemble, states, paused, slots, recorder)
            ensemble.ends.may_rest[cycles] = False
            states = _with_codes(states, np.where(cycles, RUNNING, states.code))
        bar.update(*watch.how_far(states))
        if not np.any(states.code == RUNNING):
            states = ensemble.switch(states)
            calls = 1
            if not np.any(states.code == RUNNING):
                break
    _, there = ensemble.advance(states, plan_end(states.clock.dtype, slots), drives, recorder)
    saves.fill(states, there, ensemble.counts)
    clocks = np.where(np.isnan(bad_steps), states.clock, bad_steps)
    return Stop(states, clocks, watch.first_gaps, errors.largest(states.params))


def _with_codes(states: State, codes: np.ndarray) -> State:
    return states._replace(code=np.asarray(codes, np.int32))


def _replaced(array: np.ndarray, index: int, value: np.ndarray | np.generic) -> np.ndarray:
    changed = np.array(array)
    changed[index] = value
    return changed


def _next_calls(calls: int, seconds: float) -> int:
    wanted = calls * CALL_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, max(calls // 8, 1), min(calls * 64, 10**9)))


def _one_segment(start: int, target: int, slots: int) -> Plan:
    targets = np.full(slots, target)
    never = np.zeros(slots, bool)
    return Plan(np.concatenate([[start], targets[1:]]), targets, never, never)


def _rest(
    ensemble: MemberStack, states: State, paused: np.ndarray, slots: int, recorder: Recorder
) -> np.ndarray:
    """Which members does one more step not change? A cycle, too, ends a segment as it began."""
    # Only where no step differs from another may a run rest: from 0 to 1 stands for all of them.
    again = _with_codes(states, np.where(paused, RUNNING, states.code))
    again = again._replace(clock=np.zeros_like(states.clock))
    drives, _ = ensemble.drives(again, 1)
    moved, _ = ensemble.advance(again, _one_segment(0, 1, slots), drives, recorder)
    pairs = zip(jax.tree.leaves(moved.params), jax.tree.leaves(states.params), strict=True)
    same = [(new == old).reshape(len(paused), -1).all(axis=1) for new, old in pairs]
    return np.logical_and.reduce(same)


def _first_bad_step(
    ensemble: MemberStack, member: int, state: State, plan: Plan, recorder: Recorder
) -> tuple[State, int]:
    """The first step with parameters that are not finite, by bisection from the last good state."""
    alone = MemberStack([ensemble.starts[member]])
    measures = None
    if len(ensemble.starts) == 1:  # its program is there already
        alone = ensemble
        measures = recorder
    state = _with_codes(state, np.asarray([RUNNING]))
    low = int(state.clock[0])
    slots = len(plan.targets)
    high = int(plan.targets[np.searchsorted(plan.targets, low, side="right")])
    while high - low > 1:
        middle = (low + high) // 2
        drives, _ = alone.drives(state, middle - low)
        once = _one_segment(low, middle, slots)
        tried, _ = alone.advance(state, once, drives, measures)
        if tried.code[0] == DIVERGED:
            high = middle
        else:
            low = middle
            state = tried
    return _with_codes(state, np.asarray([DIVERGED])), high
