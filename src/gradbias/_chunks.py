"""The compiled part of a run: a chunk of segments, each ending where something is looked at."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .dynamics import State, Stepper, System, gradient
from .dynamics._gradient import decayed
from .dynamics._protocol import CONVERGED, DIVERGED, RUNNING


class Plan(NamedTuple):
    """Where the segments of a chunk end, and which ends are looked at for convergence."""

    targets: np.ndarray
    checks: np.ndarray


class Trail(NamedTuple):
    """What every segment ended with; its gap is NaN if it was not looked at."""

    params: Any
    sums: Any
    clocks: Any
    gaps: Any
    codes: Any


@eqx.filter_jit
def begin(system: System, stepper: Stepper, params) -> tuple[dict[str, Any], Any]:
    """The sums, all zero, and the stepper's memory at the start."""
    sums = {}
    if system.tally is not None:
        shapes = jax.eval_shape(system.tally, params, params, 0.0)
        sums = jax.tree.map(lambda s: jnp.zeros(s.shape), shapes)
    return sums, stepper.begin(system, params)


@eqx.filter_jit
def run_chunk(
    system: System, stepper: Stepper, state: State, plan: Plan, drive, goal
) -> tuple[State, Trail]:
    """Advance through all segments; stop where the state does.

    Returns:
        The state at the end and the trail of the segments. Of a segment that diverges, the state
        that it started from is kept.
    """

    def segment(state: State, stop) -> tuple[State, Trail]:
        target, check = stop
        target = jnp.where(state.code == RUNNING, target, state.clock)
        moved = stepper.advance(system, state, target, drive, goal)
        gap = jax.lax.cond(check, _gap, lambda system, params: jnp.nan, system, moved.params)
        code = jnp.where((moved.code == RUNNING) & (gap <= goal), CONVERGED, moved.code)
        code = jnp.where(_finite(moved.params), code, DIVERGED)
        code = code.astype(state.code.dtype)
        kept = (state.code == RUNNING) & (code != DIVERGED)
        moved = jax.tree.map(lambda new, old: jnp.where(kept, new, old), moved, state)
        code = jnp.where(state.code == RUNNING, code, state.code)
        moved = State(moved.params, moved.sums, moved.clock, moved.memory, code)
        return moved, Trail(moved.params, moved.sums, moved.clock, gap, code)

    return jax.lax.scan(segment, state, tuple(plan))


@eqx.filter_jit
def slope(system: System, stepper: Stepper, params) -> tuple[Any, Any]:
    """The gap, and the squared norm of the objective's gradient."""
    grads = gradient(system.problem, system.net, params)
    grads = decayed(grads, params, stepper.weight_decay)
    squares = jax.tree.map(lambda g: jnp.sum(g * g), grads)
    return _gap(system, params), jnp.sum(jnp.stack(jax.tree.leaves(squares)))


def _gap(system: System, params) -> Any:
    return system.gap(system.problem, system.net, params)


def _finite(tree) -> Any:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


def plan_chunk(
    clock: float, saves: np.ndarray, every: int | None, stop: float, slots: int, start: bool
) -> Plan:
    """The next segments: each ends at a save, at a check, or where the chunk does.

    Args:
        clock: where the chunk starts.
        saves: the save points that are still ahead (or at the clock, at the start).
        every: look for convergence on multiples of this; None for every segment.
        stop: where the chunk ends at the latest; may be infinite.
        slots: how many segments the compiled program has; unused ones repeat the last.
        start: is this the first chunk? Its first segment looks at the start itself.
    """
    targets, checks, ahead = ([clock], [True], 0) if start else ([], [], 0)
    while len(targets) < slots and clock < stop:
        while ahead < len(saves) and saves[ahead] <= clock:
            ahead += 1
        ends = [stop] if ahead == len(saves) else [stop, saves[ahead]]
        if every is not None:
            ends.append((clock // every + 1) * every)
        elif ahead == len(saves) and not np.isfinite(stop):
            ends.append(max(1.0, 2 * clock))
        clock = min(ends)
        targets.append(clock)
        checks.append(every is None or clock % every == 0)
    unused = slots - len(targets)
    dtype = np.float64 if every is None else np.int64
    return Plan(
        np.asarray(targets + [targets[-1]] * unused, dtype), np.asarray(checks + [False] * unused)
    )


def segments_that_fit(state) -> int:
    """How many snapshots of a state a chunk may hold."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    return int(np.clip(2**24 // max(size, 1), 4, 256))
