"""The normal space of the manifold at a point: the range of the Hessian, in its eigenbasis.

Jax-level and transformable. The Hessian itself is never formed when a residual is known: on the
manifold it is JᵀJ, and everything happens in the row space of J.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from .target import Target

RTOL = 1e-10  # singular values of J below this, relative to the largest, count as zero


class NormalSpace(eqx.Module):
    """H = basisᵀ·diag(values)·basis.

    Attributes:
        basis: (r, D), orthonormal rows; rows of zeros stand for directions that were left out.
        values: (r,) the eigenvalues of the Hessian; 1 for rows of zeros.
        images: (n, r) J·basisᵀ, what the residual does along the basis; None for a loss.
    """

    basis: Any
    values: Any
    images: Any = None

    def normal(self, vectors) -> jax.Array:
        """Qv for one vector (D,) or the rows of a matrix."""
        return (vectors @ self.basis.T) @ self.basis

    def tangent(self, vectors) -> jax.Array:
        """Pv; twice, because what the first pass leaves in the normal space is rounding."""
        once = vectors - self.normal(vectors)
        return once - self.normal(once)

    def solve(self, vectors) -> jax.Array:
        """H⁺v for one vector or the rows of a matrix."""
        coordinates = vectors @ self.basis.T
        return (coordinates / self.values.reshape((1,) * (vectors.ndim - 1) + (-1,))) @ self.basis

    def product(self, vector) -> jax.Array:
        """Hv."""
        return (self.values * (self.basis @ vector)) @ self.basis

    def lyapunov(self, matrix) -> jax.Array:
        """The solution K of HK + KH = matrix, both in the coordinates of the basis."""
        return matrix / (self.values[:, None] + self.values[None, :])


def length(vector) -> jax.Array:
    """‖v‖ of a vector of any size: squares of 1e-200 would vanish."""
    size = jnp.max(jnp.abs(vector))
    unit = jnp.where((size > 0) & jnp.isfinite(size), size, 1.0)
    return unit * jnp.linalg.norm(vector / unit)


class Decomposed(NamedTuple):
    """J = left·diag(s)·rows, s in descending order."""

    left: Any
    s: Any
    rows: Any


def decompose(J) -> Decomposed:
    """The singular value decomposition of J (n, D), by way of its small triangular factor.

    JᵀJ would square the condition number: J = RQ with orthonormal rows Q first, then R.
    """
    R, Q = _orthogonalised(J)
    left, s, Vt = jnp.linalg.svd(R, full_matrices=False)
    return Decomposed(left, s, Vt @ Q)


def _orthogonalised(J) -> tuple[Any, Any]:
    """J = RQ with orthonormal rows Q: Cholesky twice where that is safe, else Householder.

    The first factor of JJᵀ loses digits, the second one repairs them, unless J is so badly
    conditioned (1e7) that the rows are not nearly orthonormal after the first. Matrix products
    alone: ten times faster on a wide J than reflections.
    """

    def householder():
        Q, R = jnp.linalg.qr(J.T)
        return R.T, Q.T

    if J.shape[0] > J.shape[1]:
        return householder()
    first = jnp.linalg.cholesky(J @ J.T)
    once = _inverse(first) @ J
    gram = once @ once.T
    error = jnp.max(jnp.abs(gram - jnp.eye(J.shape[0])))
    second = jnp.linalg.cholesky(gram)

    def cholesky():
        return first @ second, _inverse(second) @ once

    return jax.lax.cond(error < 1e-3, cholesky, householder)  # false for NaN


def _inverse(lower) -> jax.Array:
    return solve_triangular(lower, jnp.eye(lower.shape[0]), lower=True)


def masked(basis, values, kept, images=None) -> NormalSpace:
    """A space of fixed shape, of which only the rows in `kept` count."""
    return NormalSpace(
        jnp.where(kept[:, None], basis, jnp.zeros_like(basis)),
        jnp.where(kept, values, jnp.ones_like(values)),
        images,
    )


def space_from_jacobian(J, rank: int | None = None, rtol: float = RTOL) -> NormalSpace:
    """The row space of J; JᵀJ is the Hessian.

    Args:
        J: (n, D).
        rank: how many singular values count; by `rtol` if None.
        rtol: the least singular value that counts, relative to the largest.
    """
    left, s, rows = decompose(J)
    kept = s > rtol * s[0] if rank is None else jnp.arange(s.size) < rank
    return masked(rows, s * s, kept, left * s[None, :])


def space_from_hessian(H, rank: int | None = None, rtol: float = RTOL) -> NormalSpace:
    """The range of a dense symmetric H (D, D)."""
    values, rows = hessian_rows(H)
    kept = values > rtol * values[0] if rank is None else jnp.arange(values.size) < rank
    return masked(rows, values, kept)


def hessian_rows(H) -> tuple[Any, Any]:
    """The eigenvalues of H, largest first, and its eigenvectors as rows."""
    values, vectors = jnp.linalg.eigh((H + H.T) / 2)
    return values[::-1], vectors[:, ::-1].T


def normal_space(target: Target, flat, rank: int | None = None, rtol: float = RTOL) -> NormalSpace:
    """The normal space at a point, inside compiled code; a loss needs its dense Hessian.

    The point is taken to be on the manifold: nothing is checked here.
    """
    if target.squares:
        return space_from_jacobian(target.jacobian(flat), rank, rtol)
    H = jax.vmap(lambda v: target.hessian_product(flat, v))(jnp.eye(flat.size))
    return space_from_hessian(H, rank, rtol)


def mismatch(target: Target, flat, space: NormalSpace) -> jax.Array:
    """How far the true Hessian is from the space's one, on two fixed random directions.

    Relative to the largest eigenvalue. On the manifold it is rounding; a residual that does not
    vanish at the minimum, or a saddle, adds Σ rᵢ∇²rᵢ.
    """
    probe = np.random.default_rng(0).standard_normal(flat.size) / np.sqrt(flat.size)
    normal = space.normal(jnp.asarray(probe))
    size = jnp.linalg.norm(normal)
    inside = normal / jnp.where(size > 0, size, 1.0)
    outside = space.tangent(jnp.asarray(probe))

    def error(v):
        return length(target.hessian_product(flat, v) - space.product(v))

    return jnp.max(jax.vmap(error)(jnp.stack([inside, outside])))
