"""Gradient flow until the gradient is small: an adaptive Runge–Kutta loop (jax-level).

The flow is autonomous and its limit does not depend on the clock, so the loss is rescaled to move
the point by its own length in a unit of time: a loss of any size takes the same steps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..numerics.adaptive_ode import AdaptiveOde
from ..numerics.types import Array, Number
from .normal_space import length
from .target import Target

FIRST = 1e-3  # the first step, in which a point moves by a thousandth of its length


class Flowing(eqx.Module):
    """A flow between two steps.

    Attributes:
        state: the point (D,) and the tangent vectors (m, D) that it carries along.
        dt: the next step.
        steps: taken so far, rejected ones included.
        speed: ‖∇L‖.
    """

    state: tuple[Array, Array]
    dt: Array
    steps: Array
    speed: Array


def start(target: Target, flat: Array, vectors: Array) -> Flowing:
    """A flow that has not moved yet."""
    return Flowing((flat, vectors), jnp.asarray(FIRST), jnp.asarray(0), _speed(target, flat))


def _speed(target: Target, flat: Array) -> jax.Array:
    return length(target.gradient(flat))


def flow_until(
    target: Target,
    flow: Flowing,
    rate: Number,
    goal: Number,
    budget: Number,
    rtol: Number,
    atol: Number,
) -> Flowing:
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

    def field(state):
        point, vectors = state
        slope = target.gradient(point)
        if vectors.shape[0] == 0:
            return -rate * slope, vectors
        return -rate * slope, -rate * jax.vmap(lambda v: target.hessian_product(point, v))(vectors)

    ode = AdaptiveOde(field, rtol, atol)
    zero = jnp.asarray(0.0)

    def unfinished(carry):
        flow, _ = carry
        return (flow.speed > goal) & (flow.steps < budget) & (flow.dt > 0)  # false for NaN

    def step(carry):
        flow, controller = carry
        trial = ode.step(zero, flow.dt, flow.state, controller)
        state = jax.tree.map(lambda a, b: jnp.where(trial.keep, a, b), trial.state, flow.state)
        speed = _speed(target, state[0])
        return Flowing(state, trial.dt, flow.steps + 1, speed), trial.controller

    first = (flow, ode.begin(flow.state, flow.dt))
    return jax.lax.while_loop(unfinished, step, first)[0]
