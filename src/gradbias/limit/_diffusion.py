"""Noise along the manifold: tangent kicks, the tangent drift, and a retraction.

The normal drift −½H⁺T[PΣP] is not added: a retraction along the normal space supplies exactly
that. Kicks are projected first, because a Newton retraction of kicks across the manifold has the
wrong limit: twice the drift under label noise.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._manifold.covariance import Factor, Scaled, Sigma
from .._manifold.normal_space import length
from .._manifold.target import Target
from ..dynamics.protocol import AT_REST, RUNNING, State, Stepper, System
from ..noise import Isotropic, Noise, Spread
from ..numerics import counter_rng
from ._drifts import tangent_drift
from ._fit_manifold import Ground, ground
from ._kinks import jumps
from ._landing import REACHED, Landed, land, retract, size
from ._rank import keeps_rank, space_of
from ._reasons import KINK, LOST_RANK, STEP_TOO_LARGE

REST = 1e-13  # of ‖x‖: a step that moves a point by less does not move it


class DiffusionMemory(eqx.Module):
    """What does not change along a run: what can be fitted, and Φ of the start."""

    ground: Ground
    landed: Landed
    code: Any


class LimitDiffusionStepper(Stepper):
    """Y ← retraction of Y + √dt·Pσz + dt·(tangent drift), with z standard normal."""

    key: Any
    noise: Noise
    dt: Any
    rank: Any
    weight_decay: Any
    dense: bool = eqx.field(static=True, default=False)

    def begin(self, system: System, params) -> DiffusionMemory:
        place = ground(system.problem, system.net, self.dense)
        target = place.target(system.problem, system.net, params)
        landed = land(target, ravel_pytree(params)[0], self.rank)
        rests = self._rests(system, target, landed)
        return DiffusionMemory(
            place, landed, jnp.where(landed.arrived & rests, AT_REST, landed.code)
        )

    def advance(self, system: System, state: State, start, target, drive, goal) -> State:
        memory = state.memory
        flat, shaped = ravel_pytree(state.params)
        loss = memory.ground.target(system.problem, system.net, state.params)
        spread = self.noise.spread(system.problem)
        shape = spread.size(system.problem, system.net, state.params)

        def step(k, carry):
            flat, sums, code = carry
            z = counter_rng.normal(counter_rng.stream(self.key, k, "Limit"), shape)
            new, ended = self._step(system, loss, spread, memory.landed.rank, flat, z)
            moves = (ended == RUNNING) & (code == RUNNING)
            # The step as descent sees it: −dt times this gradient.
            grads = shaped(jnp.where(moves, (flat - new) / self.dt, jnp.zeros_like(flat)))
            sums = system.add(sums, shaped(flat), grads, self.dt)
            code = jnp.where(code == RUNNING, ended, code).astype(code.dtype)
            return jnp.where(moves, new, flat), sums, code

        flat = jnp.where(state.clock > 0, flat, memory.landed.point)
        code = jnp.where(memory.code == RUNNING, state.code, memory.code).astype(state.code.dtype)
        carry = (flat, state.sums, code)
        flat, sums, code = jax.lax.fori_loop(start, target, step, carry)
        return State(shaped(flat), sums, target, memory, code)

    def _step(self, system: System, loss: Target, spread: Spread, rank, flat, z) -> tuple[Any, Any]:
        """The next point, and RUNNING or why there is none."""
        space = space_of(loss, flat, rank)
        params = loss.point(flat)
        kick = ravel_pytree(spread.kick(system.problem, system.net, params, z))[0]
        drift = tangent_drift(loss, flat, space, self._sigma(system, spread, params, z.shape))
        move = jnp.sqrt(self.dt) * space.tangent(kick) + self.dt * drift
        # Beside the way of the step, what rounding alone may put a point off the manifold.
        reach = length(move) + REACHED * size(flat)
        new, arrived = retract(loss, flat + move, space, rank, reach)
        code = jax.lax.cond(
            arrived,
            lambda: jnp.asarray(RUNNING),
            lambda: jnp.where(jumps(loss, flat, flat + move), KINK, STEP_TOO_LARGE),
        )
        code = jnp.where(keeps_rank(loss, space, rank), code, LOST_RANK)
        # A move below rounding is none: to retract it would only add rounding.
        still = length(move) <= REST * size(flat)
        return jnp.where(still, flat, new), jnp.where(still, RUNNING, code)

    def _rests(self, system: System, loss: Target, landed: Landed) -> jax.Array:
        """Is all that one step may do at the first point below rounding?"""
        flat = landed.point
        spread = self.noise.spread(system.problem)
        space = space_of(loss, flat, landed.rank)
        params = loss.point(flat)
        shape = spread.size(system.problem, system.net, params)
        sigma = self._sigma(system, spread, params, shape)
        drift = self.dt * length(tangent_drift(loss, flat, space, sigma))
        if isinstance(sigma, Factor):
            kick = length(space.tangent(sigma.transposed).ravel())
        else:
            assert isinstance(sigma, Scaled)
            free = jnp.maximum(flat.size - landed.rank, 0).astype(flat.dtype)
            kick = jnp.sqrt(sigma.variance * free)
        return drift + jnp.sqrt(self.dt) * kick <= REST * size(flat)

    def _sigma(self, system: System, spread: Spread, params, shape: tuple[int, ...]) -> Sigma:
        """Σ; a kick for every unit vector is a factor of it."""
        if isinstance(self.noise, Isotropic):
            return Scaled(self.noise.std * self.noise.std)
        count = int(np.prod(shape))
        units = jnp.eye(count).reshape(count, *shape)

        def column(unit):
            return ravel_pytree(spread.kick(system.problem, system.net, params, unit))[0]

        return Factor(jax.vmap(column)(units).T)


def default_step(noise: Noise) -> np.ndarray | None:
    """A step in which isotropic noise moves every parameter by 0.03; None for other laws."""
    if isinstance(noise, Isotropic) and noise.std > 0:
        return np.asarray(1e-3 / float(noise.std) ** 2)
    return None
