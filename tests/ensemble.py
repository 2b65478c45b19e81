"""Many members of one stochastic run in one compiled program: what tests of its law need."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gradbias as gb
from gradbias.dynamics import Gap, State, System
from gradbias.dynamics.protocol import RUNNING
from gradbias.numerics import counter_rng

TOGETHER = 4096  # members that are stepped side by side: more would leave the cache


def system(problem, net):
    return System(problem, net, Gap(None, computable=False), None)


def ends(problem, net, params, dynamics, steps, members, measure, key=0):
    """What `measure(params)` gives at the end of every member, stacked, as NumPy arrays.

    Members differ by their key alone, and every one is what `gb.simulate` makes of its key.
    """
    keys = counter_rng.fold(counter_rng.seed(key), np.arange(members))
    with gb.float64():
        stepper = dynamics.stepper(params, 0)
        drive, _ = dynamics.drive(0, None, steps, steps)
        values = _ends(system(problem, net), stepper, params, keys, steps, drive, measure)
        return jax.tree.map(np.asarray, values)


def along(problem, net, params, diffusion, table, measure, steps=None):
    """A Diffusion driven by given normal numbers, (members, steps, …), instead of its own."""
    steps = table.shape[1] if steps is None else steps
    with gb.float64():
        stepper = diffusion.stepper(params, 0)
        values = _along(system(problem, net), stepper, params, table, steps, measure)
        return jax.tree.map(np.asarray, values)


def coarser(table):
    """The same Brownian paths in steps of twice the length: sums of two neighbours, over √2."""
    members, steps = table.shape[:2]
    pairs = table.reshape(members, steps // 2, 2, *table.shape[2:])
    return pairs.sum(axis=2) / np.sqrt(2)


def _first(params, memory):
    return State(params, {}, np.asarray(0, np.int64), memory, np.asarray(RUNNING, np.int32))


@eqx.filter_jit
def _ends(system, stepper, params, keys, steps, drive, measure):
    def one(key):
        mine = eqx.tree_at(lambda s: s.key, stepper, key)
        state = _first(jax.tree.map(jnp.asarray, params), mine.begin(system, params))
        return measure(mine.advance(system, state, 0, steps, drive, -1.0).params)

    return jax.lax.map(one, jnp.asarray(keys), batch_size=TOGETHER)


@eqx.filter_jit
def _along(system, stepper, params, table, steps, measure):
    spread = stepper.begin(system, params)

    def one(numbers):
        def step(k, carry):
            return stepper.step(system, spread, *carry, numbers[k])

        start = (jax.tree.map(jnp.asarray, params), {})
        return measure(jax.lax.fori_loop(0, steps, step, start)[0])

    return jax.lax.map(one, table, batch_size=TOGETHER)
