"""Noise across the manifold only: the limit is an ordinary differential equation."""

from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .._manifold.normal_space import length
from .._manifold.target import Target
from ..dynamics.protocol import AT_REST, RUNNING, State, Stepper, System
from ..noise import DataNoise
from ..numerics.adaptive_ode import AdaptiveOde
from ..numerics.types import Array
from ._drifts import covariance_of_data, normal_drift
from ._fit_manifold import Ground, ground
from ._kinks import jumps
from ._landing import BESIDE, Landed, land, size
from ._rank import keeps_rank, space_of
from ._reasons import KINK, LOST_RANK, STEPS_TOO_SMALL

MOST = 100_000  # steps; a limit that is smooth takes some hundred
FIRST = 0.01
ROUNDING = 1e-13  # of the largest label
SHORTER = 1e-2  # than the longest step: time to look for a kink
OFF = 1e-5  # of ‖x‖: the farthest that a step may end from the manifold


class LimitFlowMemory(eqx.Module):
    """The integrator between two steps.

    Attributes:
        ground: what can be fitted.
        landed: Φ of the start.
        dt: the next step.
        longest: of the steps so far.
        controller: of the step size.
        taken: steps so far, rejected ones included.
        code: RUNNING, AT_REST, or why the flow ended on no manifold.
    """

    ground: Ground
    landed: Landed
    dt: Any
    longest: Any
    controller: Any
    taken: Any
    code: Any


# The point, the time, what the integrator remembers, and how it goes.
Carry: TypeAlias = tuple[Array, Array, LimitFlowMemory, Array]


class LimitFlowStepper(Stepper):
    """dY/dt = ½∂²Φ(Y)[Σ(Y)] in ambient space, every step ended by a Gauss–Newton one."""

    noise: DataNoise
    rtol: Any
    rank: Any
    weight_decay: Any

    def begin(self, system: System, params) -> LimitFlowMemory:
        place = ground(system.problem, system.net)
        target = place.target(system.problem, system.net, params)
        landed = land(target, ravel_pytree(params)[0], self.rank)
        ode = self._ode(system, place, target, landed)
        # A hundredth of the time in which it would move by its own length.
        speed = length(ode.field(landed.point))
        dt = FIRST * size(landed.point) / jnp.where(speed > 0, speed, 1.0)
        controller = ode.begin(landed.point, dt)
        code = jnp.where(landed.arrived & (speed == 0), AT_REST, landed.code)
        return LimitFlowMemory(
            place, landed, dt, jnp.zeros_like(dt), controller, jnp.asarray(0), code
        )

    def advance(self, system: System, state: State, start, target, drive, goal) -> State:
        memory = state.memory
        flat, shaped = ravel_pytree(state.params)
        loss = memory.ground.target(system.problem, system.net, state.params)
        ode = self._ode(system, memory.ground, loss, memory.landed)
        flat = jnp.where(state.clock > 0, flat, memory.landed.point)
        code = jnp.where(memory.code == RUNNING, state.code, memory.code).astype(state.code.dtype)

        def unfinished(carry):
            _, clock, memory, code = carry
            return (clock < target) & (code == RUNNING) & (memory.taken < drive)

        def step(carry):
            return self._step(ode, loss, carry, target)

        def smooth(carry):
            return unfinished(carry) & ~_hesitates(carry)

        def stretch(carry):
            carry = jax.lax.while_loop(smooth, step, step(carry))
            return jax.lax.cond(_hesitates(carry), lambda: _looked(ode, loss, carry), lambda: carry)

        first = (flat, state.clock, memory, code)
        flat, clock, memory, code = jax.lax.while_loop(unfinished, stretch, first)
        return State(shaped(flat), state.sums, clock, memory, code)

    def _ode(self, system: System, place: Ground, target: Target, landed: Landed) -> AdaptiveOde:
        problem = system.problem
        spread = self.noise.spread(problem)
        misfit = None if place.labels is None else _misfit(place.labels, problem.labels)

        def field(flat):
            space = space_of(target, flat, landed.rank)
            covariance = covariance_of_data(problem, spread, misfit, space.images)
            return normal_drift(target, flat, space, covariance)

        rms = size(landed.point) / landed.point.size**0.5
        return AdaptiveOde(field, self.rtol, self.rtol / 100 * rms)

    def _step(self, ode: AdaptiveOde, loss: Target, carry, target) -> Carry:
        flat, clock, memory, code = carry
        end = jnp.minimum(clock + memory.dt, target)
        new, keep, dt, controller = ode.step(clock, end, flat, memory.controller)
        # A step cut short by a save time says little about the next one.
        shortened = keep & (end == target)
        dt = jnp.where(shortened, jnp.maximum(dt, memory.dt), dt)
        space = space_of(loss, new, memory.landed.rank)
        back = space.solve(loss.gradient(new))
        whole = keeps_rank(loss, space, memory.landed.rank)
        good = (length(back) <= OFF * size(new)) & whole
        alive = (dt > 1e-14 * clock) & (memory.taken < MOST) & (good | ~keep)
        failed = jnp.where(keep & ~whole, LOST_RANK, STEPS_TOO_SMALL)
        code = jnp.where(alive, code, failed).astype(code.dtype)
        memory = eqx.tree_at(
            lambda m: (m.dt, m.longest, m.controller, m.taken),
            memory,
            (dt, jnp.maximum(memory.longest, end - clock), controller, memory.taken + 1),
        )
        keep = keep & good
        return jnp.where(keep, new - back, flat), jnp.where(keep, end, clock), memory, code


def _hesitates(carry) -> jax.Array:
    """Is the next step far shorter than one before? At a kink it is; rounding takes care of 0."""
    _, _, memory, code = carry
    return (memory.dt < SHORTER * memory.longest) & ((code == RUNNING) | (code == STEPS_TOO_SMALL))


def _looked(ode: AdaptiveOde, loss: Target, carry) -> Carry:
    """The same, stopped where there is a kink within the reach of some such steps.

    The regulariser tr H itself jumps at a kink. Behind an upward jump the limit cannot go, and
    where it can, no formula here says how: a step across would be a wrong number.
    """
    flat, clock, memory, code = carry
    ahead = ode.field(flat)
    most = BESIDE * size(flat) / jnp.where(length(ahead) > 0, length(ahead), 1.0)
    away = jnp.minimum(8 * memory.dt, most) * ahead
    code = jnp.where(jumps(loss, flat - away, flat + away), KINK, code).astype(code.dtype)
    return flat, clock, memory, code


def _misfit(fitted, labels) -> jax.Array:
    """What cannot be fitted of the labels; rounding is nothing."""
    misfit = fitted - labels
    return jnp.where(jnp.abs(misfit) <= ROUNDING * jnp.max(jnp.abs(labels)), 0.0, misfit)
