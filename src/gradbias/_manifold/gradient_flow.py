"""Gradient flow until the gradient is small: an adaptive Runge–Kutta loop (jax-level).

The flow is autonomous and its limit does not depend on the clock, so the loss is rescaled to move
the point by its own length in a unit of time: a loss of any size takes the same steps.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from .normal_space import length
from .target import Target

SOLVER = diffrax.Dopri8()
ORDER = 8
FIRST = 1e-3  # the first step, in which a point moves by a thousandth of its length


class Flowing(eqx.Module):
    """A flow between two steps.

    Attributes:
        state: the point (D,) and the tangent vectors (m, D) that it carries along.
        dt: the next step.
        steps: taken so far, rejected ones included.
        speed: ‖∇L‖.
    """

    state: tuple[Any, Any]
    dt: Any
    steps: Any
    speed: Any


def start(target: Target, flat, vectors) -> Flowing:
    """A flow that has not moved yet."""
    return Flowing((flat, vectors), jnp.asarray(FIRST), jnp.asarray(0), _speed(target, flat))


def _speed(target: Target, flat) -> Any:
    return length(target.gradient(flat))


def flow_until(target: Target, flow: Flowing, rate, goal, budget, rtol, atol) -> Flowing:
    """Follow dx/dt = −rate·∇L, and dV/dt = −rate·∇²L·V, until ‖∇L‖ ≤ goal.

    Args:
        target: the loss.
        flow: from where.
        rate: what the loss is multiplied with.
        goal: of ‖∇L‖.
        budget: the number of steps after which it stops anyway.
        rtol: relative tolerance of a step.
        atol: absolute tolerance; far below the distance at which the flow is stopped, or the
            solver hovers at its own noise for ever.
    """

    def field(t, state, args):
        point, vectors = state
        slope = target.gradient(point)
        if vectors.shape[0] == 0:
            return -rate * slope, vectors
        return -rate * slope, -rate * jax.vmap(lambda v: target.hessian_product(point, v))(vectors)

    term, zero = diffrax.ODETerm(field), jnp.asarray(0.0)
    control = diffrax.PIDController(rtol=rtol, atol=atol)
    with _usual_promotion():
        _, memory = control.init(term, zero, flow.dt, flow.state, flow.dt, None, SOLVER.func, ORDER)

    def unfinished(carry):
        flow, _ = carry
        return (flow.speed > goal) & (flow.steps < budget) & (flow.dt > 0)  # false for NaN

    def step(carry):
        flow, memory = carry
        with _usual_promotion():
            solver = SOLVER.init(term, zero, flow.dt, flow.state, None)
            new, error, _, _, _ = SOLVER.step(term, zero, flow.dt, flow.state, None, solver, False)
            keep, t_from, t_to, _, memory, _ = control.adapt_step_size(
                zero, flow.dt, flow.state, new, None, error, ORDER, memory
            )
        state = jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, flow.state)
        speed = _speed(target, state[0])
        return Flowing(state, t_to - t_from, flow.steps + 1, speed), memory

    return jax.lax.while_loop(unfinished, step, (flow, memory))[0]


@contextlib.contextmanager
def _usual_promotion() -> Iterator[None]:
    """Diffrax counts on jax's default promotion rules, which the caller may have made strict."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
