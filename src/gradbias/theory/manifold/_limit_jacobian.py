"""∂Φ: how the end of a gradient flow moves with its start."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..._manifold.normal_space import NormalSpace
from ..._manifold.rank import warn_if_unclear
from ..._manifold.target import Target, target_at
from ..._manifold.third_derivative import twice
from ...numerics import checks
from ...numerics.precision import host
from ...numerics.types import Array, PyTree
from ._limit_point import follow, polish
from ._on_manifold import DENSE


@host
def limit_jacobian(
    x0: PyTree,
    directions: ArrayLike | None = None,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    rtol: float = 1e-10,
    stop: float | None = None,
    max_steps: int = 100_000,
) -> np.ndarray:
    """∂Φ(x0), on the manifold and off it.

    On the manifold it is the tangent projector. Off it, the end of the variational equation
    X′ = −∇²L(x(t))·X: of the same rank, with the tangent space at Φ(x0) as its range, but not
    symmetric. Near the manifold the equation is left for the second-order expansion of Φ.

    Args:
        x0: where: an array or a PyTree.
        directions: (D, m), the directions in which to differentiate, in the order of
            `jax.flatten_util.ravel_pytree(x0)`; None for all of them, below 200 parameters.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².
        rank: the number of normal directions, where the spectrum does not show it.
        rtol: relative tolerance of a step.
        stop: how close to the manifold the flow goes, relative to ‖x‖.
        max_steps: of the flow.

    Returns:
        (D, D), or (D, m) with directions.
    """
    target, flat = target_at(x0, loss, residual)
    V = _directions(directions, target.size)
    followed = follow(target, flat, V.T, rank, rtol, stop, max_steps)
    end, here, _, arrived = polish(target, followed, rank)
    if not arrived:
        raise ValueError(
            f"x0: gradient flow did not converge, so that its limit has no derivative: "
            f"{followed.message if not followed.near else 'the polish failed'}"
        )
    warn_if_unclear(here.rank, here.values, "J" if target.squares else "the Hessian", 3)
    point, carried = followed.flow.state
    return np.asarray(_near(target, end, here.space, np.asarray(point) - end, carried)).T


def _directions(directions: ArrayLike | None, D: int) -> np.ndarray:
    if directions is not None:
        return checks.array("directions", directions, shape=(D, None))
    if D >= DENSE:
        raise ValueError(
            f"directions must be given from {DENSE} parameters on, got None with {D}: the whole "
            "Jacobian would be a dense matrix"
        )
    return np.eye(D)


@eqx.filter_jit
def _near(target: Target, end, space: NormalSpace, away, vectors) -> Array:
    return expand(target.gradient, jnp.asarray(end), space, jnp.asarray(away), vectors)


def expand(gradient: Callable[[Any], Any], end, space: NormalSpace, away, vectors) -> Array:
    """∂Φ(end + away)v for the rows v, to first order in a small normal `away` (jax-level).

    Pv + ∂²Φ[away, v], where the second derivative is −P T[Pv, H⁺away] for the tangent part of v
    and −P T[L_H⁻¹(away vᵀ)] for its normal part: one product for every v and every normal
    direction.
    """
    B = space.basis
    h = space.values
    across = B @ away
    bent = space.solve(away)

    def of_normal(b, value):
        return twice(gradient, end, b, (across / (h + value)) @ B)

    def of_tangent(v):
        return twice(gradient, end, space.tangent(v), bent)

    columns = jax.lax.map(lambda p: of_normal(*p), (B, h), batch_size=16)
    moved = jax.lax.map(of_tangent, vectors, batch_size=16) + (vectors @ B.T) @ columns
    return space.tangent(vectors - moved)
