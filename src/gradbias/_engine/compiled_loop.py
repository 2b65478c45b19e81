"""The compiled part of a run: a chunk of segments, each ending where something is looked at."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics import State, Stepper, System, decayed, gradient
from ..dynamics.protocol import CONVERGED, DIVERGED, RUNNING, SPENT, STATIONARY
from ..nets.base import as_matrix
from ..numerics.linalg import spectral_bound
from .measurement import Views
from .single_kernel import can_be_one_kernel, in_one_kernel
from .stacking import Stack, any_member, bytes_of, over_members, pick

UNSEEN = -1.0  # where nobody looked
TINY_BYTES = 1024  # of parameters: members below this are faster side by side than one by one


class Plan(NamedTuple):
    """The segments of a chunk.

    Attributes:
        starts: where they start.
        targets: where they end.
        checks: which ends are looked at for convergence.
        saves: which ends are measured.
    """

    starts: np.ndarray
    targets: np.ndarray
    checks: np.ndarray
    saves: np.ndarray


class How(NamedTuple):
    """How a chunk is compiled.

    Attributes:
        side_by_side: may members advance in one loop? Else one after the other.
        keeps_states: are the states at the ends of segments handed out?
    """

    side_by_side: bool
    keeps_states: bool


class Ends(NamedTuple):
    """When each member stops.

    Attributes:
        goal: the excess loss at which it has converged; −∞ for never.
        limit: the clock at which its time is up.
        may_rest: does it stop where a segment ends as it began?
        first: the loss at the start where its minimum is unknown, else None.
    """

    goal: Any
    limit: Any
    may_rest: Any
    first: Any


class Trail(NamedTuple):
    """What every segment ended with.

    Attributes:
        values: the observables; NaN where it was not measured.
        measured: was it? Only where a member has just arrived, or all stand still.
        params: the states, if they are kept.
        sums: those of the observables that add up.
        clocks: where it ended.
        gaps: infinite where nobody looked, or the member did not run.
        codes: what became of the member.
        slopes: as in its state.
        looks: what else bounds the growth of errors, the noise in the slope of a step and the norms
            of the factors; −1 where nobody looked, None where there are no errors.
    """

    values: dict[str, Any]
    measured: Any
    params: Any
    sums: Any
    clocks: Any
    gaps: Any
    codes: Any
    slopes: Any
    looks: Any


@eqx.filter_jit
def begin(members: Stack, params) -> tuple[dict[str, Any], Any]:
    """The sums, all zero, and the stepper's memory at the start, of every member."""

    def member(own, params):
        system, stepper = members.of(own)
        sums = {}
        if system.tally is not None:
            shapes = jax.eval_shape(system.tally, params, params, 0.0)
            sums = jax.tree.map(lambda s: jnp.zeros(s.shape), shapes)
        return sums, stepper.begin(system, params)

    return over_members(member, False, members.own, params)


@eqx.filter_jit
def run_chunk(
    members: Stack, views: Views | None, states: State, plan: Plan, drives, ends: Ends, how: How
) -> tuple[State, Trail]:
    """Advance every member through all segments; each stops where its state does.

    Returns:
        The states at the end and the trails of the segments, a row for each member. Of a segment
        that diverges, the state that it started from is kept.
    """
    if how.side_by_side and _better_alone(members, states, plan, drives, ends):
        how = how._replace(side_by_side=False)

    def member(own, seen, state, drive, ends):
        system, stepper = members.of(own)

        def measure(state: State) -> dict[str, Any]:
            values = {} if views is None else views.measure(seen, state.params)
            return jax.tree.map(lambda v: jnp.asarray(v, float), values)  # whole numbers, too

        shapes = jax.eval_shape(measure, state)

        def nothing(state: State) -> dict[str, Any]:
            return jax.tree.map(lambda s: jnp.full(s.shape, jnp.nan), shapes)

        def segment(state, piece):
            moved, gap, here = _segment(system, stepper, state, piece, drive, ends, how)
            values = jax.lax.cond(any_member(here, how.side_by_side), measure, nothing, moved)
            values = jax.tree.map(lambda v: jnp.where(here, v, jnp.nan), values)
            looks = _looks(system, stepper, moved, piece.checks | piece.saves)
            return moved, _trail(moved, values, here, gap, looks, how)

        def unused(state, piece):
            never, unseen = jnp.asarray(False), jnp.asarray(jnp.inf)
            looks = _looks(system, stepper, state, None)
            return state, _trail(state, nothing(state), never, unseen, looks, how)

        def slot(state, piece):
            used = piece.checks | piece.saves | (piece.targets > piece.starts)
            return jax.lax.cond(used, segment, unused, state, piece)

        return jax.lax.scan(slot, state, plan)

    seen = None if views is None else views.members.own
    return over_members(member, how.side_by_side, members.own, seen, states, drives, ends)


def _better_alone(members: Stack, states: State, plan: Plan, drives, ends: Ends) -> bool:
    """Is each member a kernel of its own, and large enough to be as fast as many in one loop?"""
    own, state, drive, own_ends = pick((members.own, states, drives, ends), 0)
    if bytes_of(state.params) <= TINY_BYTES:
        return False
    system, stepper = members.of(own)
    start, target = plan.starts[0], plan.targets[0]
    return can_be_one_kernel(
        lambda: stepper.advance(system, state, start, target, drive, own_ends.goal)
    )


def _segment(
    system: System, stepper: Stepper, state: State, piece: Plan, drive, ends: Ends, how: How
) -> tuple[State, Any, Any]:
    """The state at the end, its gap, and whether it is to be measured."""
    # A member that an adaptive solver left behind has to reach its own save first.
    runs = (state.code == RUNNING) & (state.clock >= piece.starts)
    if jnp.issubdtype(state.clock.dtype, jnp.integer):
        # One that is ahead, because another was taken for stationary and goes on, waits for it.
        runs = runs & (state.clock == piece.starts)
    anyone = any_member(runs, how.side_by_side)
    target = jnp.where(anyone, piece.targets, piece.starts)

    unknown = system.gap.unknown

    def advanced() -> State:
        goal = jnp.full_like(ends.goal, -jnp.inf) if unknown else ends.goal
        return stepper.advance(system, state, piece.starts, target, drive, goal)

    moved = advanced() if how.side_by_side else in_one_kernel(advanced)
    gap = jax.lax.cond(piece.checks, _gap, lambda system, params: jnp.inf, system, moved.params)
    rests = ends.may_rest & (target > piece.starts)
    # Where the smallest layer moved, the others need not be looked at.
    rests = jax.lax.cond(rests & _least_same(moved, state), _same, _never, moved, state)
    code = jnp.where(rests, STATIONARY, RUNNING)
    code = jnp.where(moved.clock >= ends.limit, SPENT, code)
    if unknown:
        whole = system, stepper, moved, state, gap, ends
        there = jax.lax.cond(piece.checks, _settled, lambda *_: jnp.asarray(False), *whole)
    else:
        there = gap <= ends.goal
    code = jnp.where(there, CONVERGED, code)
    code = jnp.where(moved.code == RUNNING, code, moved.code)
    code = jnp.where(_finite(moved.params), code, DIVERGED).astype(state.code.dtype)
    kept = runs & (code != DIVERGED)
    moved = jax.tree.map(lambda new, old: jnp.where(kept, new, old), moved, state)
    moved = moved._replace(code=jnp.where(runs, code, state.code))
    # One that was there before has been measured there; at an end of no steps all stand still.
    arrives = kept & (state.clock < piece.targets) & (moved.clock == piece.targets)
    still = (piece.targets == piece.starts) & (kept | ~runs)
    return moved, jnp.where(runs, gap, jnp.inf), piece.saves & (arrives | still)


def _settled(system: System, stepper: Stepper, moved: State, state: State, loss, ends: Ends) -> Any:
    """Has the loss come to rest, where nobody knows how low it can get?

    dL/dt = −‖∇L‖²: at this slope, as much time again would lower the loss by `left`. A slope that
    is merely small is not enough (a start near a saddle, tiny steps): the run must have come from
    a steeper place.
    """
    grads = decayed(
        gradient(system.problem, system.net, moved.params), moved.params, stepper.weight_decay
    )
    way = jax.tree.map(jnp.subtract, moved.params, state.params)
    length = (moved.clock - state.clock).astype(float)
    rate = jnp.sqrt(_squared(grads)) * jnp.sqrt(_squared(way)) / length
    left = rate * moved.clock.astype(float)
    return (length > 0) & (left <= ends.goal) & (ends.first - loss > 10 * left)


def _looks(system: System, stepper: Stepper, state: State, looked) -> Any:
    """The noise in the slope of the next step, and the norms of the factors, where looked at."""
    if system.growth is None:
        return None

    def seen(system, stepper, state):
        params, noise = state.params, jnp.asarray(0.0)
        theta, batch = as_matrix(system.net.predictor(params)), stepper.batch(system, state.clock)
        if batch is not None:
            slopes = [system.problem.theta_gradient(theta, data) for data in (batch, None)]
            noise = spectral_bound(slopes[0] - slopes[1], jnp)
        return jnp.stack([noise, *(spectral_bound(f, jnp) for f in system.net.factors(params))])

    def unseen(system, stepper, state):
        return jnp.full(1 + len(system.net.factors(state.params)), UNSEEN)

    if looked is None:
        return unseen(system, stepper, state)
    return jax.lax.cond(looked, seen, unseen, system, stepper, state)


def _trail(state: State, values: dict[str, Any], here, gap, looks, how: How) -> Trail:
    params = state.params if how.keeps_states else None
    return Trail(
        values, here, params, state.sums, state.clock, gap, state.code, state.slopes, looks
    )


class Slope(NamedTuple):
    """How steep it is at the end of a run.

    Attributes:
        gap: the excess loss.
        squared: the squared norm of the objective's gradient in the parameters.
        in_theta: that of the loss's gradient in the predictor; infinite where there is none.
    """

    gap: Any
    squared: Any
    in_theta: Any


def slopes(members: Stack, params) -> Slope:
    """How steep it is for every member."""
    # Not the whole steppers: one program then serves all that differ in their noise alone.
    parts = [(system, stepper.weight_decay) for system, stepper in (members.own, members.shared)]
    return _slopes(Stack(*parts), params)


@eqx.filter_jit
def _slopes(members: Stack, params) -> Slope:
    def member(own, params):
        system, weight_decay = members.of(own)
        grads = gradient(system.problem, system.net, params)
        grads = decayed(grads, params, weight_decay)
        return Slope(_gap(system, params), _squared(grads), _in_theta(system, params))

    return over_members(member, False, members.own, params)


def _in_theta(system: System, params) -> Any:
    if system.gap.excess is None:
        return jnp.asarray(jnp.inf)
    theta = as_matrix(system.net.predictor(params))
    return _squared(system.problem.theta_gradient(theta))


def _squared(tree) -> Any:
    squares = jax.tree.map(lambda leaf: jnp.sum(leaf * leaf), tree)
    return jnp.sum(jnp.stack(jax.tree.leaves(squares)))


def _gap(system: System, params) -> Any:
    return system.gap(system.problem, system.net, params)


def _same(new: State, old: State) -> Any:
    pairs = ((new.params, new.sums, new.memory), (old.params, old.sums, old.memory))
    same = jax.tree.map(lambda a, b: jnp.all(a == b), *pairs)
    return jnp.all(jnp.stack(jax.tree.leaves(same)))


def _never(new: State, old: State) -> Any:
    return jnp.asarray(False)


def _least_same(new: State, old: State) -> Any:
    pairs = zip(jax.tree.leaves(new.params), jax.tree.leaves(old.params), strict=True)
    # "rest" and other single numbers may stand still while all layers move.
    several = [pair for pair in pairs if pair[0].size > 1]
    if not several:
        return jnp.asarray(True)
    a, b = min(several, key=lambda pair: pair[0].size)
    return jnp.all(a == b)


def _finite(tree) -> Any:
    return jnp.all(jnp.stack([_all_finite(leaf) for leaf in jax.tree.leaves(tree)]))


def _all_finite(leaf) -> Any:
    if leaf.ndim == 2 and leaf.size:
        # 0 · x is 0 for finite x only, and a product is ten times as fast as a reduction. Zeros
        # that are constants might be folded away.
        leaf = leaf @ (0.0 * leaf[0])
    return jnp.all(jnp.isfinite(leaf))


def plan_chunk(
    clock: float,
    stops: np.ndarray,
    every: int | None,
    end: float,
    slots: int,
    first: bool,
    grain: int = 1024,
) -> Plan:
    """The next segments: each ends at a save or limit, at a check, or where a chunk may end.

    So a run has the same segments, and the same bits, however fast the machine is.

    Args:
        clock: where the chunk starts.
        stops: clock values that a segment must end at, in order: saves and limits. All are
            measured: limits are few.
        every: look for convergence on multiples of this; None for every segment.
        end: where the chunk ends at the latest; may be infinite.
        slots: how many segments the compiled program has; unused ones repeat the last.
        first: is this the first chunk? Its first segment looks at the start itself.
        grain: chunks end on multiples of this, where steps are counted.
    """
    start, (targets, checks, saves) = clock, ([clock], [True], [True]) if first else ([], [], [])
    ahead = int(np.searchsorted(stops, clock, side="right"))
    while len(targets) < slots and clock < end:
        ends = [end] if ahead == len(stops) else [end, stops[ahead]]
        if every is not None:
            ends += [(clock // every + 1) * every, (clock // grain + 1) * grain]
        elif ahead == len(stops) and not np.isfinite(end):
            ends.append(max(1.0, math.ldexp(1.0, math.frexp(clock)[1])))  # the next power of two
        clock = min(ends)
        stops_here = ahead < len(stops) and clock == stops[ahead]
        ahead += stops_here
        targets.append(clock)
        saves.append(stops_here)
        checks.append(every is None or clock % every == 0)
    unused, dtype = slots - len(targets), np.float64 if every is None else np.int64
    targets += [targets[-1]] * unused
    return Plan(
        np.asarray([start, *targets[:-1]], dtype),
        np.asarray(targets, dtype),
        np.asarray(checks + [False] * unused),
        np.asarray(saves + [False] * unused),
    )


def plan_end(clocks: np.dtype, slots: int) -> Plan:
    """No steps: only what is measured where the members are."""
    nowhere, never = np.zeros(slots, clocks), np.zeros(slots, bool)
    return Plan(nowhere, nowhere, never, np.arange(slots) == 0)


def segments_that_fit(size: int) -> int:
    """How many segments a chunk may have if each of them hands out so many bytes.

    Two megabytes of them, but at least 16 that fit into 32: memory that is asked for anew at every
    call costs as much as the steps, and so does a call.
    """
    size = max(size, 1)
    return int(np.clip(2**21 // size, np.clip(2**25 // size, 4, 16), 128))
