"""The compiled part of a run: segments of steps, each ending where something is looked at."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..dynamics import State, Stepper, System
from ..dynamics.protocol import CONVERGED, DIVERGED, RUNNING, SPENT, STATIONARY
from ..nets.base import as_matrix
from ..numerics.linalg import spectral_bound
from .call_plan import Plan
from .measurement import Views
from .single_kernel import CompiledSteps, compiled_steps
from .stacking import Stack, any_member, bytes_of, over_members, pick
from .stop_checks import Ends, excess_loss, has_settled, is_finite, is_same, least_is_same

UNSEEN = -1.0  # where nobody looked
TINY_BYTES = 1024  # of parameters: members below this are faster side by side than one by one


class LoopOptions(NamedTuple):
    """How a call is compiled.

    Attributes:
        side_by_side: may members advance in one loop? Else one after the other.
        keeps_states: are the states at the ends of segments handed out?
        single_kernel: may steps be compiled as one kernel?
    """

    side_by_side: bool
    keeps_states: bool
    single_kernel: bool


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
def run_call(
    members: Stack,
    views: Views | None,
    states: State,
    plan: Plan,
    drives,
    ends: Ends,
    how: LoopOptions,
) -> tuple[State, Trail]:
    """Advance every member through all segments; each stops where its state does.

    Returns:
        The states at the end and the trails of the segments, a row for each member. Of a segment
        that diverges, the state that it started from is kept.
    """
    if how.side_by_side and _better_alone(members, states, plan, drives, ends, how):
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
            never = jnp.asarray(False)
            unseen = jnp.asarray(jnp.inf)
            looks = _looks(system, stepper, state, None)
            return state, _trail(state, nothing(state), never, unseen, looks, how)

        def slot(state, piece):
            used = piece.checks | piece.saves | (piece.targets > piece.starts)
            return jax.lax.cond(used, segment, unused, state, piece)

        return jax.lax.scan(slot, state, plan)

    seen = None if views is None else views.members.own
    return over_members(member, how.side_by_side, members.own, seen, states, drives, ends)


def _better_alone(
    members: Stack, states: State, plan: Plan, drives, ends: Ends, how: LoopOptions
) -> bool:
    """Is each member a kernel of its own, and large enough to be as fast as many in one loop?"""
    own, state, drive, own_ends = pick((members.own, states, drives, ends), 0)
    if bytes_of(state.params) <= TINY_BYTES:
        return False
    piece = pick(plan, 0)
    system, stepper = members.of(own)
    steps = _steps(system, stepper, state, piece, piece.targets, drive, own_ends.goal, how)
    return steps.single


def _steps(
    system: System, stepper: Stepper, state: State, piece: Plan, target, drive, goal, how
) -> CompiledSteps:
    """The steps of a segment of one member."""

    def advance() -> State:
        return stepper.advance(system, state, piece.starts, target, drive, goal)

    if how.side_by_side:
        return CompiledSteps(advance, single=False)
    return compiled_steps(advance, how.single_kernel)


def _segment(
    system: System, stepper: Stepper, state: State, piece: Plan, drive, ends: Ends, how: LoopOptions
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
    goal = jnp.full_like(ends.goal, -jnp.inf) if unknown else ends.goal
    moved = _steps(system, stepper, state, piece, target, drive, goal, how).call()
    gap = jax.lax.cond(
        piece.checks, excess_loss, lambda system, params: jnp.inf, system, moved.params
    )
    rests = ends.may_rest & (target > piece.starts)
    # Where the smallest layer moved, the others need not be looked at.
    rests = jax.lax.cond(
        rests & least_is_same(moved, state),
        is_same,
        lambda new, old: jnp.asarray(False),
        moved,
        state,
    )
    code = jnp.where(rests, STATIONARY, RUNNING)
    code = jnp.where(moved.clock >= ends.limit, SPENT, code)
    if unknown:
        whole = system, stepper, moved, state, gap, ends
        there = jax.lax.cond(piece.checks, has_settled, lambda *_: jnp.asarray(False), *whole)
    else:
        there = gap <= ends.goal
    code = jnp.where(there, CONVERGED, code)
    code = jnp.where(moved.code == RUNNING, code, moved.code)
    code = jnp.where(is_finite(moved.params), code, DIVERGED).astype(state.code.dtype)
    kept = runs & (code != DIVERGED)
    moved = jax.tree.map(lambda new, old: jnp.where(kept, new, old), moved, state)
    moved = moved._replace(code=jnp.where(runs, code, state.code))
    # One that was there before has been measured there; at an end of no steps all stand still.
    arrives = kept & (state.clock < piece.targets) & (moved.clock == piece.targets)
    still = (piece.targets == piece.starts) & (kept | ~runs)
    return moved, jnp.where(runs, gap, jnp.inf), piece.saves & (arrives | still)


def _looks(system: System, stepper: Stepper, state: State, looked) -> jax.Array | None:
    """The noise in the slope of the next step, and the norms of the factors, where looked at."""
    if system.growth is None:
        return None

    def seen(system, stepper, state):
        params = state.params
        noise = jnp.asarray(0.0)
        theta = as_matrix(system.net.predictor(params))
        batch = stepper.batch(system, state.clock)
        if batch is not None:
            slopes = [system.problem.theta_gradient(theta, data) for data in (batch, None)]
            noise = spectral_bound(slopes[0] - slopes[1], jnp)
        return jnp.stack([noise, *(spectral_bound(f, jnp) for f in system.net.factors(params))])

    def unseen(system, stepper, state):
        return jnp.full(1 + len(system.net.factors(state.params)), UNSEEN)

    if looked is None:
        return unseen(system, stepper, state)
    return jax.lax.cond(looked, seen, unseen, system, stepper, state)


def _trail(state: State, values: dict[str, Any], here, gap, looks, how: LoopOptions) -> Trail:
    params = state.params if how.keeps_states else None
    return Trail(
        values, here, params, state.sums, state.clock, gap, state.code, state.slopes, looks
    )
