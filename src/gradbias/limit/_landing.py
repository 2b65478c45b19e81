"""Φ inside compiled code: from anywhere to the manifold, and from near it back onto it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._manifold.gradient_flow import Flowing, flow_until, start
from .._manifold.normal_space import NormalSpace, length, mismatch
from .._manifold.target import Target
from ..dynamics.protocol import RUNNING
from ..numerics.types import Number
from ._escape import has_no_minimum
from ._kinks import jumps
from ._rank import directions, is_clear, largest, space_of
from ._reasons import KINK, NO_MINIMUM, NOT_FINITE, NOT_FITTED, OUTWARDS, TOO_SLOW, UNCLEAR_RANK

RTOL = 1e-10  # of a step of the flow
# of ‖x‖: where the flow ends and Newton steps begin
NEAR_SQUARES = 1e-6
NEAR_LOSS = 1e-7
STILL = 1e-40  # of ‖x‖ in a unit of the flow's time: it does not get anywhere
# steps between two looks at the distance, and in all
STAGE = 2000
MOST = 100_000
REACHED = 1e-9  # of ‖x‖: a last Newton step below this means that the manifold is reached
TINY = float(np.finfo(np.float64).tiny)
EXACT = 1e-13  # the same for a retraction, where convergence is free
NEWTON = 40  # steps of a retraction at most
FLAT = 1e-3  # of the curvature at the start
BESIDE = 1e-5  # of ‖x‖: how far from where a flow is stuck a kink is looked for


class Landed(NamedTuple):
    """A point of the manifold.

    Attributes:
        point: (D,).
        rank: the number of normal directions.
        code: RUNNING, or why it is no such point, from `_reasons`.
    """

    point: Any
    rank: Any
    code: Any

    @property
    def arrived(self) -> jax.Array:
        """Is it a point of the manifold?"""
        return self.code == RUNNING


def land(target: Target, flat, rank: "Number | None" = None) -> Landed:
    """Φ(flat), by gradient flow and a few Newton steps at its end.

    Args:
        target: the loss above its minimum.
        flat: from where, (D,).
        rank: the number of normal directions; by the spectrum if None.
    """
    near = NEAR_SQUARES if target.factored else NEAR_LOSS
    flow = start(target, flat, jnp.zeros((0, flat.size)))
    rate = _ratio(size(flat), flow.speed)
    atol = RTOL / 10 * _smallest(target, flat)

    def unfinished(carry):
        flow, close, endless, _ = carry
        moves = (flow.dt > 0) & (flow.speed * rate > STILL * size(flow.state[0]))  # false for NaN
        return ~close & ~endless & (moves | (flow.steps == 0)) & (flow.steps < MOST)

    def stage(carry):
        flow, _, _, _ = carry
        point = flow.state[0]
        space = space_of(target, point, rank)
        close = length(space.solve(target.gradient(point))) <= near * size(point)
        endless = ~close & has_no_minimum(target, point)
        # No step from where it is close enough, or would go on without end.
        goal = jnp.where(close | endless, jnp.inf, flow.speed / 10)
        budget = jnp.minimum(flow.steps + STAGE, MOST)
        flow = flow_until(target, flow, rate, goal, budget, RTOL, atol)
        return flow, close, endless, directions(space)

    first = (flow, jnp.asarray(False), jnp.asarray(False), jnp.asarray(0))
    flow, close, endless, seen = jax.lax.while_loop(unfinished, stage, first)
    landed = _polished(target, flow.state[0], seen if rank is None else rank, rank is not None)
    alive = jnp.isfinite(flow.speed) & (flow.dt > 0)
    lost = jnp.where(flow.steps < MOST, OUTWARDS, _smooth_or_kink(target, flow, TOO_SLOW))
    lost = jnp.where(_flattens(target, flat, flow.state[0]), OUTWARDS, lost)
    lost = jnp.where(alive, lost, NOT_FINITE)
    lost = jnp.where(endless, NO_MINIMUM, lost)
    code = jnp.where(close, landed.code, lost).astype(jnp.int32)
    # Newton steps from far away may leave the real numbers, which would hide the reason.
    point = _finite(landed.point, _finite(flow.state[0], flat))
    return Landed(jnp.where(code == RUNNING, landed.point, point), landed.rank, code)


def _finite(point, otherwise) -> jax.Array:
    return jnp.where(jnp.all(jnp.isfinite(point)), point, otherwise)


def _flattens(target: Target, first, last) -> jax.Array:
    """Has a flow gone outwards, to where the loss hardly curves? It may seek infinity."""

    def curvature(point) -> jax.Array:
        slope = target.gradient(point)
        unit = slope / jnp.where(length(slope) > 0, length(slope), 1.0)
        return length(target.hessian_product(point, unit))

    return (curvature(last) < FLAT * curvature(first)) & (length(last) > length(first))


def _smooth_or_kink(target: Target, flow: Flowing, otherwise: int) -> jax.Array:
    """KINK where there is one next to a flow that ran out of steps."""
    point = flow.state[0]

    def look() -> jax.Array:
        probe = jnp.asarray(np.random.default_rng(2).standard_normal(point.size))
        away = BESIDE * size(point) / length(probe) * probe
        return jnp.where(jumps(target, point - away, point + away), KINK, otherwise)

    return jax.lax.cond(flow.steps < MOST, lambda: jnp.asarray(otherwise), look)


def _polished(target: Target, point, rank, given: bool) -> Landed:
    def newton(_, carry):
        point, _, _ = carry
        space = space_of(target, point, rank)
        step = space.solve(target.gradient(point))
        error = _relative(mismatch(target, point, space), largest(space, rank))
        return point - step, length(step), error

    nothing = jnp.asarray(jnp.inf)
    polished, last, error = jax.lax.fori_loop(0, 5, newton, (point, nothing, nothing))
    # Without a residual that has to vanish, the Hessian alone tells that JᵀJ is all of it.
    fitted = error <= (1e-7 if target.factored and not target.squares else 1e-4)
    if target.squares:  # what J does not reach, no step sees
        top = jnp.max(jnp.abs(target.jacobian(polished))) * size(polished)
        error = _relative(jnp.max(jnp.abs(target.residual(polished))), top)
        fitted = fitted & (error <= REACHED)
    # Newton steps go to the nearest point, not to Φ: the flow has to do nearly all of the way.
    near = length(polished - point) <= 1e-4 * size(polished)
    clear = (last <= REACHED * size(polished)) & near
    clear = clear if given else clear & is_clear(target, polished, rank)
    code = jnp.where(fitted, jnp.where(clear, RUNNING, UNCLEAR_RANK), NOT_FITTED)
    return Landed(polished, rank, code)


def retract(target: Target, flat, space: NormalSpace, rank, reach) -> tuple[Any, Any]:
    """Back onto the manifold from near it; and did it arrive?

    Along the normal space of a point nearby, at the cost of a gradient a step; where that does not
    converge, by full Gauss–Newton steps. To the second order the two go to the same point.

    Args:
        target: the loss above its minimum.
        flat: a point near the manifold.
        space: the normal space of a point nearby.
        rank: its dimension.
        reach: how far a point of the manifold may be; one farther off is not the one that is meant.
    """

    def stands(point, step) -> jax.Array:
        # A normal line that misses the manifold has a lowest point, too: there the step vanishes,
        # and the gradient does not.
        flat_there = length(target.gradient(point)) <= REACHED * largest(space, rank) * size(point)
        return (step <= REACHED * size(point)) & flat_there & (length(point - flat) <= reach)

    point, step = _newton(target, flat, lambda _: space, jnp.asarray(False))
    done = stands(point, step) & (step <= EXACT * size(point))
    again, last = _newton(target, flat, lambda x: space_of(target, x, rank), done)
    return jnp.where(done, point, again), done | stands(again, last)


def _newton(target: Target, flat, space_at: Callable[[Any], NormalSpace], skip) -> tuple[Any, Any]:
    """Newton steps for as long as they become shorter: the point and the last step's length."""

    def unfinished(carry):
        _, step, last, count = carry
        return ~skip & (step > 1e-15 * size(flat)) & (step < last) & (count < NEWTON)

    def newton(carry):
        point, step, _, count = carry
        move = space_at(point).solve(target.gradient(point))
        return point - move, length(move), step, count + 1

    far = jnp.asarray(1e300)
    first = (flat, far, jnp.asarray(jnp.inf), jnp.asarray(0))
    point, step, _, _ = jax.lax.while_loop(unfinished, newton, first)
    return point, step


def size(flat) -> jax.Array:
    """‖x‖, to which distances are compared; 1 for zero."""
    norm = length(flat)
    return jnp.where(norm > 0, norm, 1.0)


def _relative(error, size) -> jax.Array:
    """error/size, and 0 for 0/0."""
    return jnp.where(error > 0, error / jnp.where(size > 0, size, TINY), 0.0)


def _ratio(length, speed) -> jax.Array:
    return jnp.where(speed > 0, length / jnp.where(speed > 0, speed, 1.0), 1.0)


def _smallest(target: Target, flat) -> jax.Array:
    """The root mean square of the smallest array that is not zero: small inits need it."""
    ends = np.cumsum([int(np.prod(shape)) for shape in target.shapes])[:-1]
    parts = [part for part in jnp.split(flat, ends) if part.size]
    sizes = jnp.stack([jnp.sqrt(jnp.mean(part * part)) for part in parts])
    least = jnp.min(jnp.where(sizes > 0, sizes, jnp.inf))
    return jnp.where(jnp.isfinite(least), least, 1.0)
