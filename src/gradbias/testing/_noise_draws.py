"""Many draws of a law in one compiled program, seen through a few directions."""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..dynamics import gradient
from ..nets import Net
from ..noise import Noise
from ..numerics.counter_rng import seed
from ..numerics.types import Array, PyTree
from ..problems import Batch, Problem

TOGETHER = 256  # draws that are made side by side


def drawn(noise: Noise, problem: Problem, sees: "Sees", key: int, count: int) -> np.ndarray:
    """What `sees(noise, problem, key, step)` makes of every step, stacked."""
    steps = np.arange(count, dtype=np.int64)
    return np.asarray(_drawn(noise, problem, sees, seed(key), steps))


@eqx.filter_jit
def _drawn(
    noise: Noise, problem: Problem, sees: "Sees", key: "Array | np.uint64", steps: Array
) -> jax.Array:
    return jax.lax.map(
        lambda step: sees(noise, problem, key, step), steps, batch_size=min(TOGETHER, len(steps))
    )


class RowEffects(eqx.Module):
    """Weights minus one and weighted label noise, each along some directions."""

    weights: Array
    labels: Array

    def __call__(
        self, noise: Noise, problem: Problem, key: "Array | np.uint64", step: Array
    ) -> Array:
        n = self.weights.shape[1]
        k = self.labels.shape[1] // n
        w, u = effect(noise.batch(problem, key, step), n, k)
        return jnp.concatenate([self.weights @ (w - 1.0), self.labels @ u.reshape(-1)])


class Gradients(eqx.Module):
    """Stochastic gradients minus the exact one, along some directions."""

    net: Net
    params: PyTree
    matrix: Array

    def __call__(
        self, noise: Noise, problem: Problem, key: "Array | np.uint64", step: Array
    ) -> Array:
        exact = gradient(problem, self.net, self.params)
        grads = gradient(problem, self.net, self.params, noise.batch(problem, key, step))
        added = noise.added(key, step, self.params)
        if added is not None:
            grads = jax.tree.map(jnp.add, grads, added)
        apart = jax.tree.map(jnp.subtract, grads, exact)
        return self.matrix @ ravel_pytree(apart)[0]


Sees: TypeAlias = RowEffects | Gradients


@eqx.filter_jit
def claimed_root(noise: Noise, problem: Problem, sees: Gradients) -> jax.Array:
    """(m, …): the rows of σ in these directions, by the transpose of `kick`."""
    size = noise.kick_size(problem, sees.net, sees.params)
    _, shaped = ravel_pytree(sees.params)
    _, back = jax.vjp(lambda z: noise.kick(problem, sees.net, sees.params, z), jnp.zeros(size))
    rows = jax.vmap(lambda row: back(shaped(row))[0])(jnp.asarray(sees.matrix))
    return rows.reshape(len(sees.matrix), -1)


def effect(batch: Batch | None, n: int, k: int) -> tuple[jax.Array, jax.Array]:
    """How often every sample counts, (n,), and that times the noise on its label, (n, k)."""
    if batch is None:
        return jnp.ones(n), jnp.zeros((n, k))
    rows = jnp.arange(n) if batch.indices is None else jnp.asarray(batch.indices)
    counts = jnp.full(len(rows), n / len(rows))
    if batch.weights is not None:
        counts = counts * batch.weights
    weights = jnp.zeros(n).at[rows].add(counts)
    labels = jnp.zeros((n, k))
    if batch.label_noise is not None:
        labels = labels.at[rows].add(counts[:, None] * batch.label_noise)
    return weights, labels
