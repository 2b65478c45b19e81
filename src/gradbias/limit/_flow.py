"""Noise across the manifold only: the limit is an ordinary differential equation."""

import contextlib
from collections.abc import Iterator
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .._manifold.normal_space import length
from .._manifold.target import Target
from ..dynamics.protocol import AT_REST, RUNNING, State, Stepper, System
from ..noise import DataNoise
from ._drifts import covariance_of_data, normal_drift
from ._fit_manifold import Ground, ground
from ._kinks import jumps
from ._landing import BESIDE, Landed, land, size
from ._rank import keeps_rank, space_of
from ._reasons import KINK, LOST_RANK, STEPS_TOO_SMALL

SOLVER = diffrax.Dopri8()
ORDER = 8
MOST = 100_000  # steps; a limit that is smooth takes some hundred
FIRST = 0.01
ROUNDING = 1e-13  # of the largest label
SHORTER = 1e-2  # than the longest step: time to look for a kink
OFF = 1e-5  # of ‖x‖: the farthest that a step may end from the manifold


class Memory(eqx.Module):
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


class LimitFlowStepper(Stepper):
    """dY/dt = ½∂²Φ(Y)[Σ(Y)] in ambient space, every step ended by a Gauss–Newton one."""

    noise: DataNoise
    rtol: Any
    rank: Any
    weight_decay: Any

    def begin(self, system: System, params) -> Memory:
        place = ground(system.problem, system.net)
        target = place.target(system.problem, system.net, params)
        landed = land(target, ravel_pytree(params)[0], self.rank)
        term, zero = self._term(system, place, target, landed), jnp.asarray(0.0)
        # A hundredth of the time in which it would move by its own length.
        speed = length(term.vector_field(zero, landed.point, None))
        dt = FIRST * size(landed.point) / jnp.where(speed > 0, speed, 1.0)
        with _usual_promotion():
            _, controller = self._controller(landed).init(
                term, zero, dt, landed.point, dt, None, SOLVER.func, ORDER
            )
        code = jnp.where(landed.arrived & (speed == 0), AT_REST, landed.code)
        return Memory(place, landed, dt, jnp.zeros_like(dt), controller, jnp.asarray(0), code)

    def advance(self, system: System, state: State, start, target, drive, goal) -> State:
        memory, (flat, shaped) = state.memory, ravel_pytree(state.params)
        loss = memory.ground.target(system.problem, system.net, state.params)
        term = self._term(system, memory.ground, loss, memory.landed)
        flat = jnp.where(state.clock > 0, flat, memory.landed.point)
        code = jnp.where(memory.code == RUNNING, state.code, memory.code).astype(state.code.dtype)

        def unfinished(carry):
            _, clock, memory, code = carry
            return (clock < target) & (code == RUNNING) & (memory.taken < drive)

        def step(carry):
            return self._step(term, loss, carry, target)

        def smooth(carry):
            return unfinished(carry) & ~_hesitates(carry)

        def stretch(carry):
            carry = jax.lax.while_loop(smooth, step, step(carry))
            return jax.lax.cond(
                _hesitates(carry), lambda: _looked(term, loss, carry), lambda: carry
            )

        first = (flat, state.clock, memory, code)
        flat, clock, memory, code = jax.lax.while_loop(unfinished, stretch, first)
        return State(shaped(flat), state.sums, clock, memory, code)

    def _controller(self, landed: Landed) -> diffrax.PIDController:
        rms = size(landed.point) / landed.point.size**0.5
        return diffrax.PIDController(rtol=self.rtol, atol=self.rtol / 100 * rms)

    def _term(self, system: System, place: Ground, target: Target, landed: Landed) -> Any:
        problem = system.problem
        spread = self.noise.spread(problem)
        misfit = None if place.labels is None else _misfit(place.labels, problem.labels)

        def field(t, flat, args):
            space = space_of(target, flat, landed.rank)
            covariance = covariance_of_data(problem, spread, misfit, space.images)
            return normal_drift(target, flat, space, covariance)

        return diffrax.ODETerm(field)

    def _step(self, term: diffrax.ODETerm, loss: Target, carry, target) -> Any:
        flat, clock, memory, code = carry
        end = jnp.minimum(clock + memory.dt, target)
        control = self._controller(memory.landed)
        with _usual_promotion():
            solver = SOLVER.init(term, clock, end, flat, None)
            new, error, _, _, _ = SOLVER.step(term, clock, end, flat, None, solver, False)
            keep, t_from, t_to, _, controller, _ = control.adapt_step_size(
                clock, end, flat, new, None, error, ORDER, memory.controller
            )
        # A step cut short by a save time says little about the next one.
        shortened = keep & (end == target)
        dt = jnp.where(shortened, jnp.maximum(t_to - t_from, memory.dt), t_to - t_from)
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


def _hesitates(carry) -> Any:
    """Is the next step far shorter than one before? At a kink it is; rounding takes care of 0."""
    _, _, memory, code = carry
    return (memory.dt < SHORTER * memory.longest) & ((code == RUNNING) | (code == STEPS_TOO_SMALL))


def _looked(term: diffrax.ODETerm, loss: Target, carry) -> Any:
    """The same, stopped where there is a kink within the reach of some such steps.

    The regulariser tr H itself jumps at a kink. Behind an upward jump the limit cannot go, and
    where it can, no formula here says how: a step across would be a wrong number.
    """
    flat, clock, memory, code = carry
    ahead = term.vector_field(clock, flat, None)
    most = BESIDE * size(flat) / jnp.where(length(ahead) > 0, length(ahead), 1.0)
    away = jnp.minimum(8 * memory.dt, most) * ahead
    code = jnp.where(jumps(loss, flat - away, flat + away), KINK, code).astype(code.dtype)
    return flat, clock, memory, code


def _misfit(fitted, labels) -> Any:
    """What cannot be fitted of the labels; rounding is nothing."""
    misfit = fitted - labels
    return jnp.where(jnp.abs(misfit) <= ROUNDING * jnp.max(jnp.abs(labels)), 0.0, misfit)


@contextlib.contextmanager
def _usual_promotion() -> Iterator[None]:
    """Diffrax counts on jax's default promotion rules, which the caller may have made strict."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
