"""How noise moves a point along the manifold (jax-level)."""

import jax
import jax.numpy as jnp

from .._manifold.covariance import Sigma
from .._manifold.normal_space import NormalSpace
from .._manifold.target import Target
from .._manifold.third_derivative import pulled, rows_as_pairs, twice_sums
from ..noise import FreshSpread, SampleSpread, Spread


def normal_drift(target: Target, flat, space: NormalSpace, covariance) -> jax.Array:
    """−½ P T[L_H⁻¹(Σ)] of a residual, for noise across the manifold only.

    Args:
        target: with a residual.
        flat: a point of the manifold.
        space: its normal space.
        covariance: Σ in the coordinates of the space; cH makes −(c/4) P∇tr H of this.
    """
    K = space.lyapunov(covariance)
    return -space.tangent(pulled(target, flat, (space.images @ K) @ space.basis))


def tangent_drift(target: Target, flat, space: NormalSpace, sigma: Sigma) -> jax.Array:
    """−½ P T[L_H⁻¹(QΣQ)] − P T[H⁺QΣP]: all of the drift but what a retraction supplies."""
    products = sigma.rows(space.basis)
    covariance = products @ space.basis.T
    K = space.lyapunov((covariance + covariance.T) / 2)
    across = space.tangent(products) / space.values[:, None]
    if target.squares:
        return -space.tangent(pulled(target, flat, space.images @ (K @ space.basis + across)))
    if target.factored:
        right = K @ space.basis / 2 + across
        return -space.tangent(target.function.third(target.point, flat, space.basis, right))
    numbers, vectors = jnp.linalg.eigh(K)
    rows = vectors.T @ space.basis
    groups = [
        (rows_as_pairs(numbers[:, None] * rows, rows), len(rows)),
        (rows_as_pairs(space.basis, across), len(across)),
    ]
    normal, mixed = twice_sums(target.gradient, flat, groups)
    return -space.tangent(normal / 2 + mixed)


def covariance_of_data(problem, spread: Spread, misfit, images) -> jax.Array:
    """Σ in the coordinates of the normal space, for noise in the data under squared loss.

    Every stochastic gradient is then Jᵀ times something: Σ has no part along the manifold.

    Args:
        problem: rows, or fresh samples.
        spread: of the noise law.
        misfit: (n, k) what no net can fit of the labels; None for fresh samples.
        images: J·basisᵀ.
    """
    if isinstance(spread, FreshSpread):
        inputs, outputs = problem.latent
        moved = jnp.einsum("kl,ilr->ikr", problem.root_eps, images.reshape(inputs, outputs, -1))
        return _gram(moved) * (2 * problem.weight / spread.batch_size)
    assert isinstance(spread, SampleSpread)
    per_sample = images.reshape(*misfit.shape, -1)
    total = jnp.zeros((images.shape[1], images.shape[1]))
    if spread.weights is not None:
        rooted = _weighed(spread.weights, jnp.einsum("ik,ikr->ir", misfit, per_sample))
        total = total + _gram(rooted)
    if spread.labels is not None:
        stds = jnp.broadcast_to(spread.labels, misfit.shape[:1])
        total = total + _gram(stds[:, None, None] * per_sample)
    return 2 * problem.weight * total


def _weighed(root, columns) -> jax.Array:
    if jnp.ndim(root) == 2:
        return root @ columns
    return root * (columns - jnp.mean(columns, axis=0, keepdims=True))


def _gram(columns) -> jax.Array:
    flat = columns.reshape(-1, columns.shape[-1])
    return flat.T @ flat
