"""W1 from a fresh process without gradbias: `python w1_plain_jax.py 20000`.

Rank-1 nets, 10 scales × 10 starts, GD and SGD with batches of four; loss and θ at 200 steps.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

MEMBERS, N, D, WIDTH, BATCH, LR, SAVES = 100, 40, 100, 100, 4, 1e-3, 200
rng = np.random.default_rng(0)
X = rng.normal(size=(N, D))
y = X[:, :20] @ rng.normal(size=20)


def predictor(params):
    """θ of a rank-1 net of depth three."""
    return jnp.prod(jnp.sum(params["u"] * params["v"], axis=-1)) * params["v1"]


def loss(params, rows):
    """The mean over some rows."""
    return jnp.mean((jnp.asarray(X)[rows] @ predictor(params) - jnp.asarray(y)[rows]) ** 2)


def train(params, rows, length):
    """SAVES stretches of `length` steps; the batch of step k is rows[k]."""

    def step(k, params):
        seen = slice(None) if rows is None else rows[k]
        slope = jax.grad(loss)(params, seen)
        return jax.tree.map(lambda p, g: p - LR * g, params, slope)

    def stretch(params, first):
        params = jax.lax.fori_loop(first, first + length, step, params)
        return params, (loss(params, slice(None)), predictor(params))

    return jax.lax.scan(stretch, params, jnp.arange(SAVES) * length)


def main(steps):
    """GD, then SGD."""
    v1 = rng.normal(size=(MEMBERS, D))
    v1 *= np.repeat(np.geomspace(0.01, 10, 10), 10)[:, None] / np.linalg.norm(v1, axis=1)[:, None]
    size = np.linalg.norm(v1, axis=1)[:, None, None]
    pairs = rng.normal(size=(MEMBERS, 2, WIDTH))
    pairs *= size / np.linalg.norm(pairs, axis=2, keepdims=True)
    params = {"v1": v1, "u": pairs, "v": pairs}
    rows = rng.integers(N, size=(MEMBERS, steps, BATCH), dtype=np.int32)
    gd = jax.jit(jax.vmap(lambda p: train(p, None, steps // SAVES)))
    sgd = jax.jit(jax.vmap(lambda p, r: train(p, r, steps // SAVES)))
    jax.device_get((gd(params), sgd(params, rows)))


main(int(sys.argv[1]))
