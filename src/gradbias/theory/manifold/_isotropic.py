"""Isotropic noise: Brownian motion on the manifold, and a pull towards a small determinant."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from ..._manifold.covariance import Scaled
from ..._manifold.normal_space import NormalSpace
from ..._manifold.target import Target, target_at
from ..._manifold.third_derivative import pulled, rows_as_pairs, twice_sum
from ...numerics import checks
from ...numerics.precision import host
from ...numerics.types import Array, PyTree
from ._on_manifold import require_on_manifold
from ._second_derivative import TOL, tangent_part


@dataclasses.dataclass(frozen=True)
class IsotropicDrift:
    """The drift under Σ = s·I by its causes; all have the structure of x.

    Attributes:
        curvature: −(s/2) H⁺T[P], a normal vector: it keeps Brownian motion on the manifold.
        regulariser: −(s/4) P∇ln|H|₊, a tangent vector.
    """

    curvature: Any
    regulariser: Any

    @property
    def total(self) -> PyTree:
        """The drift, their sum."""
        return jax.tree.map(lambda a, b: a + b, self.curvature, self.regulariser)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(self.total)]
        total = self.total if isinstance(self.total, np.ndarray) else np.concatenate(leaves)
        return np.array(total, dtype=dtype, copy=copy)


@host
def isotropic_drift(
    x: PyTree,
    variance: float = 1.0,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    tol: float = TOL,
) -> IsotropicDrift:
    r"""The drift under noise of covariance s·I, in time t = k·lr².

    The limit is dY = √s·P dW + drift dt. Its curvature part and the noise are Brownian motion on
    the manifold; on a compact one the whole has the stationary density |H|₊^{−1/2}, |H|₊ being
    the product of the non-zero eigenvalues. The curvature part takes a product for every
    parameter; `isotropic_regulariser` alone, one for every normal direction.

    Args:
        x: a point of the manifold.
        variance: s.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².
        rank: the number of normal directions, where the spectrum does not show it.
        tol: how far x may be from the manifold, relative to ‖x‖.
    """
    variance = checks.number("variance", variance, at_least=0)
    target, flat = target_at(x, loss, residual)
    here = require_on_manifold(target, flat, rank, tol)
    curvature = np.asarray(_curvature(target, flat, here.space, np.asarray(variance)))
    pull = variance * np.asarray(_regulariser(target, flat, here.space))
    return IsotropicDrift(target.arrays(curvature), target.arrays(pull))


@host
def isotropic_regulariser(
    x: PyTree,
    variance: float = 1.0,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    tol: float = TOL,
) -> PyTree:
    """−(s/4) P∇ln|H|₊, the tangent part of `isotropic_drift`, for any number of parameters.

    Args:
        x: a point of the manifold.
        variance: s.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².
        rank: the number of normal directions, where the spectrum does not show it.
        tol: how far x may be from the manifold, relative to ‖x‖.

    Returns:
        A vector of the structure of x.
    """
    variance = checks.number("variance", variance, at_least=0)
    target, flat = target_at(x, loss, residual)
    here = require_on_manifold(target, flat, rank, tol)
    return target.arrays(variance * np.asarray(_regulariser(target, flat, here.space)))


@host
def log_pdet(
    x: PyTree,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    tol: float = TOL,
) -> float:
    """ln|H|₊: the sum of the logarithms of the non-zero eigenvalues of the Hessian.

    It makes sense on the manifold only: off it the Hessian has full rank.

    Args:
        x: a point of the manifold.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².
        rank: the number of normal directions, where the spectrum does not show it.
        tol: how far x may be from the manifold, relative to ‖x‖.
    """
    target, flat = target_at(x, loss, residual)
    here = require_on_manifold(target, flat, rank, tol)
    return float(np.sum(np.log(np.asarray(here.space.values))))


def regulariser(target: Target, flat, space: NormalSpace) -> Array:
    """−¼ P T[H⁺] = −¼ P∇ln|H|₊ (jax-level)."""
    inverse = space.basis / space.values[:, None]
    if target.squares:
        return -0.5 * space.tangent(pulled(target, flat, space.images @ inverse))
    pairs = rows_as_pairs(inverse, space.basis)
    return -0.25 * space.tangent(twice_sum(target.gradient, flat, pairs, len(inverse)))


def curvature(target: Target, flat, space: NormalSpace, variance) -> Array:
    """−(s/2) H⁺T[P] (jax-level)."""
    return 0.5 * tangent_part(target, flat, space, Scaled(variance))


@eqx.filter_jit
def _regulariser(target: Target, flat, space: NormalSpace) -> Array:
    return regulariser(target, jnp.asarray(flat), space)


@eqx.filter_jit
def _curvature(target: Target, flat, space: NormalSpace, variance) -> Array:
    return curvature(target, jnp.asarray(flat), space, variance)
