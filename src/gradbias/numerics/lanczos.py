"""Spectra in compiled code: the rank threshold, and the largest eigenvalue without a matrix.

matfree's Lanczos has no restarts, and once the Krylov space closes its answer is NaN or wrong
(537 for the identity, matfree 0.6.3). Hessians at interpolation have rank n·k at most, so their
Krylov spaces close after a few steps: the loop here goes on with a random direction instead.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .types import Array

MatVec = Callable[[Any], Any]

DENSE = 400  # the size up to which a dense eigenvalue solver is cheaper than iterations
BASIS = 32  # vectors held by the iteration
KEPT = 16  # Ritz vectors that survive a restart; many, because top eigenvalues cluster
CYCLES = 200
RTOL = 1e-9
FLOOR = 1e-13  # of the operator's norm: below this a residual is rounding


def numerical_rank(s: Array, shape: tuple[int, ...]) -> Any:
    """How many singular values `s` of a matrix of this shape are above the rank threshold.

    The traceable twin of `linalg.rank_threshold`.
    """
    threshold = jnp.max(s, initial=0.0) * (max(shape, default=0) * np.finfo(np.float64).eps)
    return jnp.sum(s > threshold)


def singular_values(matrix: Array) -> Any:
    """The singular values of a matrix, the largest first; none of an empty one."""
    if 0 in matrix.shape:
        return jnp.zeros((0,), matrix.dtype)
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T  # twice as fast as wide
    return jnp.linalg.svd(tall, compute_uv=False)


def largest_eigenvalue(matvec: MatVec, size: int) -> jax.Array:
    """The largest eigenvalue of a symmetric operator on vectors of length `size`; NaN if unknown.

    Args:
        matvec: the operator, linear and traceable.
        size: its dimension; up to `DENSE` its matrix is formed.
    """
    if size <= DENSE:
        matrix = jax.vmap(matvec)(jnp.eye(size))
        return jnp.linalg.eigvalsh((matrix + matrix.T) / 2)[-1]
    return lanczos(matvec, size)


def lanczos(matvec: MatVec, size: int) -> jax.Array:
    """The largest eigenvalue by restarted Lanczos with full reorthogonalisation.

    Accepted when the residual of its Ritz vector is at most `RTOL` of it, or `FLOOR` of the
    operator's norm; NaN when that is not reached in `CYCLES` restarts. The start is random, so an
    eigenvalue that the residual overlooks is above the answer by RTOL·√size of it at most.
    """

    def unfinished(state):
        *_, cycle, _, residual, tolerance = state
        return (cycle < CYCLES) & (residual > tolerance)  # false for NaN: nothing to wait for

    def cycle(state):
        Q, H, count, *_ = state
        start = jnp.where(count == 0, 0, KEPT)
        Q, H = jax.lax.fori_loop(start, BASIS, lambda j, QH: _extend(matvec, j, *QH), (Q, H))
        values, vectors = jnp.linalg.eigh(H)
        ritz = vectors[:, -1] @ Q[:BASIS]
        residual = _norm(matvec(ritz) - values[-1] * ritz)
        tolerance = jnp.maximum(RTOL * jnp.abs(values[-1]), FLOOR * jnp.max(jnp.abs(values)))
        return *_restart(Q, values, vectors), count + 1, values[-1], residual, tolerance

    Q = jnp.zeros((BASIS + 1, size)).at[0].set(_random_unit(size, BASIS))
    H = jnp.zeros((BASIS, BASIS))
    unknown = jnp.asarray(jnp.inf), jnp.asarray(jnp.inf), jnp.asarray(0.0)
    *_, value, residual, tolerance = jax.lax.while_loop(unfinished, cycle, (Q, H, 0, *unknown))
    return jnp.where(residual <= tolerance, value, jnp.nan)


def _extend(matvec: MatVec, j, Q, H):
    """One more column of H = Q A Qᵀ, and the direction that the operator adds to Q."""
    image = matvec(Q[j])
    h = (Q @ image)[:BASIS]
    new = _off(Q, _off(Q, image))
    length = _norm(new)
    new = jax.lax.cond(
        length > FLOOR * _norm(image),
        lambda: new / length,
        lambda: _random_unit(Q.shape[1], j),  # the space is invariant: look elsewhere
    )
    new = _off(Q, _off(Q, new))
    return Q.at[j + 1].set(new / _norm(new)), H.at[:, j].set(h).at[j, :].set(h)


def _restart(Q, values, vectors):
    """The best Ritz vectors and the next direction; H is diagonal on the former."""
    best = vectors[:, -KEPT:].T @ Q[:BASIS]
    H = jnp.zeros((BASIS, BASIS)).at[:KEPT, :KEPT].set(jnp.diag(values[-KEPT:]))
    return jnp.zeros_like(Q).at[:KEPT].set(best).at[KEPT].set(Q[BASIS]), H


def _off(Q, vector):
    """The part of `vector` that is orthogonal to the rows of Q."""
    return vector - (Q @ vector) @ Q


def _random_unit(size: int, index):
    """A direction hashed from counters (splitmix64): jax.random compiles for a second more."""
    x = jnp.arange(1, size + 1, dtype=np.uint64) + jnp.asarray(index, np.uint64) * np.uint64(size)
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    vector = (x ^ (x >> np.uint64(31))).astype(np.float64) / 2.0**64 - 0.5
    return vector / _norm(vector)


def _norm(vector):
    # Scaled first: squares of 1e-170 are zero, and a residual of zero would be believed.
    top = jnp.max(jnp.abs(vector))
    scaled = vector / jnp.where(top == 0, 1.0, top)
    return top * jnp.sqrt(jnp.sum(scaled * scaled))
