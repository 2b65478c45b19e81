"""The second derivative of the gradient flow's limit map, contracted with a noise covariance."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._manifold.covariance import Sigma, SigmaLike, as_sigma
from ..._manifold.normal_space import NormalSpace
from ..._manifold.target import Target, target_at
from ..._manifold.third_derivative import Pairs, pulled_each, rows_as_pairs, twice_sum, twice_sums
from ...numerics.precision import host
from ...numerics.types import Array, PyTree
from ._on_manifold import require_on_manifold

TOL = 1e-6  # how far from the manifold, relative to ‖x‖, a point may be


@dataclasses.dataclass(frozen=True)
class SecondDerivative:
    """∂²Φ[Σ] by the part of the noise that causes it; all have the structure of x.

    Attributes:
        tangent: −H⁺T[PΣP], by noise along the manifold: a normal vector, the curvature of it.
        normal: −P T[L_H⁻¹(QΣQ)], by noise across the manifold: a tangent vector.
        mixed: −2P T[H⁺QΣP], by the correlation of the two: a tangent vector.
        rank: the number of normal directions.
        gap: how clear that number is; see `tangent_projector`.
        distance: how far x is from the manifold, by a Newton step.
    """

    tangent: Any
    normal: Any
    mixed: Any
    rank: int
    gap: float
    distance: float

    @property
    def total(self) -> PyTree:
        """∂²Φ[Σ], the sum of the three."""
        return jax.tree.map(lambda a, b, c: a + b + c, self.tangent, self.normal, self.mixed)


@host
def second_derivative(
    x: PyTree,
    sigma: SigmaLike,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    tol: float = TOL,
) -> SecondDerivative:
    r"""∂²Φ(x)[Σ] at a point of the manifold: what noise of covariance Σ does to the limit.

    $\partial^2\Phi[\Sigma] = -H^+T[P\Sigma P] - P\,T[L_H^{-1}(Q\Sigma Q)] - 2P\,T[H^+Q\Sigma P]$,
    with $T[M] = \sum_{ij}\partial_i\partial_j\nabla L\,M_{ij}$. The published formula, as we read
    it, has other signs; these are the true ones. With a residual the last two cost as much as a
    few Jacobians, and the first one a second derivative for every column of a factor of Σ (every
    parameter if Σ is not given by a factor). With a loss, two nested derivatives for every normal
    direction besides. No D×D matrix is made for 200 parameters or more.

    Args:
        x: a point of the manifold of minimisers: an array, or a PyTree such as an equinox module.
        sigma: the covariance of one stochastic gradient, in the order of
            `jax.flatten_util.ravel_pytree(x)`: a (D, D) matrix; a (D, m) factor σ of Σ = σσᵀ
            (`Factor(σ)` for a square one); a number s for s·I; a jax function v → Σv; or a noise
            law, with `residual=residuals(problem, net)`.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖², zero on the manifold: much cheaper.
        rank: the number of normal directions, where the spectrum does not show it.
        tol: how far x may be from the manifold, relative to ‖x‖.
    """
    target, flat = target_at(x, loss, residual)
    here = require_on_manifold(target, flat, rank, tol)
    found = _parts(target, flat, here.space, as_sigma(sigma, target, flat))
    tangent, normal, mixed = (target.arrays(np.asarray(part)) for part in found)
    return SecondDerivative(tangent, normal, mixed, here.rank.rank, here.rank.gap, here.distance)


@host
def drift(
    x: PyTree,
    sigma: SigmaLike,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    tol: float = TOL,
) -> PyTree:
    """½∂²Φ(x)[Σ]: the drift of the limiting diffusion, in time t = k·lr².

    Args:
        x: a point of the manifold.
        sigma: the covariance of one stochastic gradient; see `second_derivative`.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².
        rank: the number of normal directions, where the spectrum does not show it.
        tol: how far x may be from the manifold, relative to ‖x‖.

    Returns:
        A vector of the structure of x.
    """
    found = second_derivative(x, sigma, loss=loss, residual=residual, rank=rank, tol=tol)
    return jax.tree.map(lambda total: total / 2, found.total)


@host
def third_derivative(
    x: PyTree,
    sigma: SigmaLike,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
) -> PyTree:
    r"""T[Σ] = $\sum_{ij} \partial_i\partial_j\nabla L(x)\,\Sigma_{ij}$, at any point.

    Args:
        x: an array or a PyTree.
        sigma: a symmetric matrix in any form that `second_derivative` takes.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².

    Returns:
        A vector of the structure of x.
    """
    target, flat = target_at(x, loss, residual)
    return target.arrays(np.asarray(_contract(target, flat, as_sigma(sigma, target, flat))))


def parts(target: Target, flat, space: NormalSpace, sigma: Sigma) -> tuple[Any, Any, Any]:
    """The three parts of ∂²Φ[Σ]: tangent, normal, mixed (jax-level)."""
    products = sigma.rows(space.basis)
    covariance = products @ space.basis.T
    K = space.lyapunov((covariance + covariance.T) / 2)
    across = space.tangent(products) / space.values[:, None]
    if target.squares:
        weights = jnp.stack([(space.images @ K) @ space.basis, space.images @ across])
        normal, mixed = -2 * space.tangent(pulled_each(target, flat, weights))
        return tangent_part(target, flat, space, sigma), normal, mixed
    numbers, vectors = jnp.linalg.eigh(K)
    rows = vectors.T @ space.basis
    groups = [
        tangent_pairs(space, sigma, flat.size),
        (rows_as_pairs(numbers[:, None] * rows, rows), len(rows)),
        (rows_as_pairs(space.basis, across), len(across)),
    ]
    along, normal, mixed = twice_sums(target.gradient, flat, groups)
    return -space.solve(along), -space.tangent(normal), -2 * space.tangent(mixed)


def tangent_part(target: Target, flat, space: NormalSpace, sigma: Sigma) -> Array:
    """−H⁺T[PΣP] (jax-level); with a residual J⁺ of its second derivatives, for JP = 0."""
    pairs, count = tangent_pairs(space, sigma, flat.size)
    if not target.squares:
        return -space.solve(twice_sum(target.gradient, flat, pairs, count))
    bent = twice_sum(target.residual, flat, pairs, count)
    return -((space.images.T @ bent) / space.values) @ space.basis


def tangent_pairs(space: NormalSpace, sigma: Sigma, size: int) -> tuple[Pairs, int]:
    """PΣP as a sum of pairs, and their number."""
    pairs, count = sigma.pairs(size)

    def tangent(i):
        a, b = pairs(i)
        return space.tangent(a), space.tangent(b)

    return tangent, count


@eqx.filter_jit
def _parts(target: Target, flat, space: NormalSpace, sigma: Sigma) -> tuple[Any, Any, Any]:
    return parts(target, jnp.asarray(flat), space, sigma)


@eqx.filter_jit
def _contract(target: Target, flat, sigma: Sigma) -> Array:
    return twice_sum(target.gradient, jnp.asarray(flat), *sigma.pairs(flat.size))
