"""What decides inside a compiled call whether a run stops: the gap, rest, overflow, slopes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..dynamics import State, Stepper, System, decayed, gradient
from ..nets.base import as_matrix
from .stacking import Stack, over_members


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
        return Slope(excess_loss(system, params), _squared(grads), _in_theta(system, params))

    return over_members(member, False, members.own, params)


def _in_theta(system: System, params) -> jax.Array:
    if system.gap.excess is None:
        return jnp.asarray(jnp.inf)
    theta = as_matrix(system.net.predictor(params))
    return _squared(system.problem.theta_gradient(theta))


def _squared(tree) -> jax.Array:
    squares = jax.tree.map(lambda leaf: jnp.sum(leaf * leaf), tree)
    return jnp.sum(jnp.stack(jax.tree.leaves(squares)))


def excess_loss(system: System, params) -> jax.Array:
    """The loss above its minimum, or the loss where that is unknown."""
    return system.gap(system.problem, system.net, params)


def has_settled(
    system: System, stepper: Stepper, moved: State, state: State, loss, ends: Ends
) -> jax.Array:
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


def is_same(new: State, old: State) -> jax.Array:
    """Did nothing move, to the last bit?"""
    pairs = ((new.params, new.sums, new.memory), (old.params, old.sums, old.memory))
    same = jax.tree.map(lambda a, b: jnp.all(a == b), *pairs)
    return jnp.all(jnp.stack(jax.tree.leaves(same)))


def least_is_same(new: State, old: State) -> jax.Array:
    """Did the smallest layer not move?"""
    pairs = zip(jax.tree.leaves(new.params), jax.tree.leaves(old.params), strict=True)
    # "rest" and other single numbers may stand still while all layers move.
    several = [pair for pair in pairs if pair[0].size > 1]
    if not several:
        return jnp.asarray(True)
    a, b = min(several, key=lambda pair: pair[0].size)
    return jnp.all(a == b)


def is_finite(tree) -> jax.Array:
    """Is every number in it finite?"""
    return jnp.all(jnp.stack([_all_finite(leaf) for leaf in jax.tree.leaves(tree)]))


def _all_finite(leaf) -> jax.Array:
    if leaf.ndim == 2 and leaf.size:
        # 0 · x is 0 for finite x only, and a product is ten times as fast as a reduction. Zeros
        # that are constants might be folded away.
        leaf = leaf @ (0.0 * leaf[0])
    return jnp.all(jnp.isfinite(leaf))
