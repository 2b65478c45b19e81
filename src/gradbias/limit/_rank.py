"""Normal spaces of a rank that is found at the start and then kept (jax-level)."""

from typing import Any

import jax
import jax.numpy as jnp

from .._manifold.normal_space import NormalSpace, decompose, hessian_rows, masked
from .._manifold.target import Target
from ..numerics.types import Number

SMALL = 10_000  # numbers in a Jacobian that one call of LAPACK decomposes
# Singular values of J, or eigenvalues of the Hessian, relative to the largest one: the least that
# counts near the manifold; what must be rounding on it; and the least that is told from zero.
CUT_SQUARES = 1e-9
CUT_LOSS = 1e-5
ZERO_SQUARES = 1e-11
ZERO_LOSS = 1e-8
LEAST_SQUARES = 1e-10
LEAST_LOSS = 1e-9


def space_of(target: Target, flat, rank: "Number | None" = None) -> NormalSpace:
    """The normal space at a point, of fixed shape; a loss without a J needs its dense Hessian.

    Args:
        target: the loss above its minimum.
        flat: the point; nothing is checked.
        rank: the number of directions, which may be traced; by the spectrum if None.
    """
    if target.factored:
        left, values, rows = _svd(target.jacobian(flat))
        kept = _kept(values, rank, CUT_SQUARES)
        return masked(rows, values * values, kept, left * values[None, :])
    values, rows = hessian_rows(_hessian(target, flat))
    return masked(rows, values, _kept(values, rank, CUT_LOSS))


def directions(space: NormalSpace) -> jax.Array:
    """How many rows of a masked space count."""
    return jnp.sum(jnp.any(space.basis != 0, axis=1))


def largest(space: NormalSpace, rank) -> jax.Array:
    """The largest eigenvalue of the Hessian; 0 where it vanishes."""
    return jnp.where(rank > 0, space.values[0], 0.0)


def keeps_rank(target: Target, space: NormalSpace, rank) -> jax.Array:
    """Are all normal directions still told from tangent ones?"""
    cut = LEAST_SQUARES**2 if target.factored else LEAST_LOSS
    least = space.values[jnp.maximum(rank - 1, 0)]
    return (rank == 0) | (least > cut * space.values[0])


def is_clear(target: Target, flat, rank) -> jax.Array:
    """On the manifold, is all that does not count rounding?"""
    if target.factored:
        _, values, _ = _svd(target.jacobian(flat))
    else:
        values = -jnp.sort(-jnp.abs(hessian_rows(_hessian(target, flat))[0]))
    rest = jnp.where(jnp.arange(values.size) >= rank, values, 0.0)
    return jnp.max(rest) <= (ZERO_SQUARES if target.factored else ZERO_LOSS) * values[0]


def _svd(J) -> tuple[Any, Any, Any]:
    """One call of LAPACK for a small J; a wide one is orthogonalised first."""
    left, s, rows = jnp.linalg.svd(J, full_matrices=False) if J.size <= SMALL else decompose(J)
    return left, s, rows


def _kept(values, rank, cut: float) -> jax.Array:
    return values > cut * values[0] if rank is None else jnp.arange(values.size) < rank


def _hessian(target: Target, flat) -> jax.Array:
    return jax.vmap(lambda v: target.hessian_product(flat, v))(jnp.eye(flat.size))
