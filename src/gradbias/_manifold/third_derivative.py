"""Third derivatives of the loss, contracted with a matrix that is never formed (jax-level).

A loss takes one nested derivative for every pair of vectors. Where L = ½‖r‖² and r = 0, only
first derivatives of J are left in tangent directions: P T[a bᵀ] = P(J′[a]ᵀJb + J′[b]ᵀJa), so that
any sum of such terms is the gradient of one number ⟨W, J(x)⟩.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .target import Target

CHUNK = 16  # products at once: enough to fill vector units, and memory stays O(CHUNK·D)

Pairs = Callable[[Any], tuple[Any, Any]]
Function = Callable[[Any], Any]


def twice(function: Function, flat, a, b) -> jax.Array:
    """The second derivative of a function along a and b; T[a bᵀ] if it is the gradient."""

    def along(point):
        return jax.jvp(function, (point,), (a,))[1]

    return jax.jvp(along, (flat,), (b,))[1]


def twice_sum(function: Function, flat, pairs: Pairs, count: int) -> jax.Array:
    """Σ_i of second derivatives along `count` pairs of vectors, a few at a time.

    Args:
        function: of a flat vector; the gradient of the loss for T[Σ_i a_i b_iᵀ].
        flat: where, (D,).
        pairs: the pair (a_i, b_i) for a traced index i.
        count: how many there are.
    """
    return twice_sums(function, flat, [(pairs, count)])[0]


def twice_sums(function: Function, flat, groups: Sequence[tuple[Pairs, int]]) -> jax.Array:
    """The sums over several groups of pairs, a row each; nested derivatives are compiled once."""
    groups = [group if group[1] else (_nothing(flat), 1) for group in groups]
    ends = np.cumsum([count for _, count in groups])
    width = int(min(CHUNK, ends[-1]))

    def pair(i):
        group = jnp.sum(jnp.asarray(ends) <= i)
        branches = [
            lambda j, pairs=pairs, first=end - count: pairs(j - first)
            for (pairs, count), end in zip(groups, ends, strict=True)
        ]
        return group, jax.lax.switch(group, branches, i)

    def product(i):
        group, (a, b) = pair(jnp.minimum(i, ends[-1] - 1))
        share = ((jnp.arange(len(groups)) == group) & (i < ends[-1])).astype(flat.dtype)
        return share, twice(function, flat, a, b)

    def add(chunk, total):
        shares, products = jax.vmap(product)(chunk * width + jnp.arange(width))
        return total + shares.T @ products

    shape = (len(groups), *jax.eval_shape(function, flat).shape)
    return jax.lax.fori_loop(0, -(-int(ends[-1]) // width), add, jnp.zeros(shape))


def _nothing(flat) -> Pairs:
    return lambda i: (jnp.zeros_like(flat), jnp.zeros_like(flat))


def rows_as_pairs(A, B) -> Pairs:
    """The rows of two matrices, pair by pair."""
    return lambda i: (A[i], B[i])


def pulled(target: Target, flat, weights) -> jax.Array:
    """∇⟨W, J(x)⟩ for fixed weights W (n, D) of a residual."""
    if hasattr(target.function, "pulled"):
        return target.function.pulled(target.point, flat, weights)
    return jax.grad(lambda point: jnp.sum(weights * target.jacobian(point)))(flat)


def pulled_each(target: Target, flat, weights) -> jax.Array:
    """The same for several W, (m, n, D) → (m, D)."""
    _, back = jax.vjp(target.jacobian, flat)
    return jax.vmap(lambda W: back(W)[0])(weights)
