"""Noise covariances as what the second derivative needs of them: products, and a sum of pairs."""

import abc
from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..noise import Isotropic, Noise
from ..numerics import checks
from ..numerics.types import Array
from .residuals import Residuals
from .target import Target
from .third_derivative import Pairs


class Sigma(eqx.Module):
    """A symmetric matrix Σ (D, D), applied and never formed (jax-level)."""

    @abc.abstractmethod
    def rows(self, vectors: Array) -> Array:
        """V Σ for the rows of V."""

    @abc.abstractmethod
    def pairs(self, size: int) -> tuple[Pairs, int]:
        """Vectors a_i, b_i with Σ = Σ_i a_i b_iᵀ, and their number."""


class Factor(Sigma):
    """Σ = σσᵀ from a factor σ.

    Args:
        columns: σ (D, m).
    """

    transposed: Any

    def __init__(self, columns: ArrayLike):
        self.transposed = columns.T if isinstance(columns, jax.Array) else _factor(columns).T

    def rows(self, vectors: Array) -> jax.Array:
        return (vectors @ self.transposed.T) @ self.transposed

    def pairs(self, size: int) -> tuple[Pairs, int]:
        F = jnp.asarray(self.transposed)
        return (lambda i: (F[i], F[i])), F.shape[0]


class Dense(Sigma):
    """Σ as a symmetric matrix."""

    matrix: Any

    def rows(self, vectors: Array) -> jax.Array:
        return vectors @ self.matrix

    def pairs(self, size: int) -> tuple[Pairs, int]:
        S = jnp.asarray(self.matrix)
        return (lambda i: (_unit(i, size), S[i])), size


class Scaled(Sigma):
    """Σ = variance·I."""

    variance: Any

    def rows(self, vectors: Array) -> jax.Array:
        return self.variance * vectors

    def pairs(self, size: int) -> tuple[Pairs, int]:
        return (lambda i: (_unit(i, size), self.variance * _unit(i, size))), size


class Operator(Sigma):
    """Σ as a jax function v → Σv, linear and symmetric."""

    function: Callable[[Any], Any]

    def rows(self, vectors: Array) -> Array:
        return jax.vmap(self.function)(vectors)

    def pairs(self, size: int) -> tuple[Pairs, int]:
        return (lambda i: (_unit(i, size), self.function(_unit(i, size)))), size


SigmaLike: TypeAlias = Sigma | Noise | ArrayLike | Callable[[Array], Array]


def as_sigma(sigma: SigmaLike, target: Target, flat: np.ndarray) -> Sigma:
    """What the user gave as a covariance, checked."""
    if isinstance(sigma, Noise):
        return _of_noise(sigma, target, flat)
    if isinstance(sigma, Sigma):
        return _of_size(sigma, target.size)
    if callable(sigma) and not hasattr(sigma, "__array__"):
        return _operator(sigma, target.size)
    if np.ndim(np.asarray(sigma)) == 0:
        return Scaled(np.asarray(checks.number("sigma", sigma, at_least=0)))
    matrix = checks.array("sigma", sigma, ndim=(2,))
    D = target.size
    if matrix.shape[0] != D:
        raise ValueError(
            f"sigma must be a ({D}, {D}) covariance or a ({D}, m) factor of it, got {matrix.shape}"
        )
    return Dense(_symmetric(matrix)) if matrix.shape[1] == D else Factor(matrix)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    size = np.max(np.abs(matrix), initial=0.0)
    if np.max(np.abs(matrix - matrix.T), initial=0.0) > 1e-8 * size:
        raise ValueError(
            f"sigma of shape {matrix.shape} must be symmetric, got a difference of "
            f"{np.max(np.abs(matrix - matrix.T)):.1e} from its transpose; a square factor σ of "
            "Σ = σσᵀ goes in as gb.theory.manifold.Factor(σ)"
        )
    return (matrix + matrix.T) / 2


def _of_noise(noise: Noise, target: Target, flat: np.ndarray) -> Sigma:
    if isinstance(noise, Isotropic):
        return Scaled(np.asarray(noise.std) ** 2)
    function = target.function
    if not isinstance(function, Residuals):
        raise ValueError(
            f"sigma is the noise law {type(noise).__name__}, which needs its data: give "
            "residual=gb.theory.manifold.residuals(problem, net), or a matrix or factor as sigma"
        )
    params = jax.tree.map(np.asarray, target.point(flat))
    return Factor(noise.factor(function.problem, function.net, params))


def _of_size(sigma: Sigma, D: int) -> Sigma:
    if isinstance(sigma, Factor) and sigma.transposed.shape[1] != D:
        raise ValueError(
            f"sigma must be a factor with {D} rows, one for every parameter, got "
            f"{sigma.transposed.shape[::-1]}"
        )
    return sigma


def _operator(function: Callable[[Any], Any], D: int) -> Operator:
    try:
        out = jax.eval_shape(function, jax.ShapeDtypeStruct((D,), np.float64))
    except Exception as error:
        raise ValueError(
            f"sigma is a function: it must be a jax function v → Σv of vectors ({D},), but "
            f"tracing it failed: {error}"
        ) from error
    if getattr(out, "shape", None) != (D,):
        raise ValueError(f"sigma(v) must have shape ({D},) for a v of that shape, got {out!r:.80}")
    return Operator(function)


def _factor(columns: ArrayLike) -> np.ndarray:
    return checks.array("columns", columns, ndim=(2,))


def _unit(i, size: int) -> jax.Array:
    return (jnp.arange(size) == i).astype(np.float64)
