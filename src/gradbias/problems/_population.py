"""Least squares in expectation: Gaussian inputs, a linear teacher and label noise."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.constants import sealed
from ..numerics.host_rng import generator
from ..numerics.linalg import SVD, thin_svd
from ..numerics.pytrees import Module
from ..numerics.types import Array, Number, PyTree
from ._batch import Batch, weighted
from .base import QuadraticProblem


class PopulationExcess(Module):
    """weight·‖s Vᵀ(θ − θ*)‖² with Σ = V diag(s²) Vᵀ.

    A sum of squares: tr (θ − θ*)ᵀ Σ (θ − θ*) can round to a negative number where Σ is singular.
    """

    s: Any
    Vt: Any
    theta_star: Any
    weight: Any

    def __call__(self, theta: Array) -> Number:
        error = self.s[:, None] * (self.Vt @ (theta - self.theta_star))
        return self.weight * (error * error).sum()


class DiagonalExcess(Module):
    """The same where Σ is diagonal."""

    variances: Any
    theta_star: Any
    weight: Any

    def __call__(self, theta: Array) -> jax.Array:
        error = theta - self.theta_star
        return self.weight * (self.variances[:, None] * error * error).sum()


class Fresh(Module):
    """Gaussian samples without end: all that noise asks of a problem that draws them.

    Attributes:
        root: R (r, d) with sigma_x = RᵀR, one row for each direction in which inputs vary; (r,)
            where these directions are the coordinates.
        root_eps: (k, k), the square root of sigma_eps.
        theta_star: (d, k), the teacher.
        weight: the factor in front of the expected square.
    """

    root: eqx.AbstractVar[Any]
    root_eps: eqx.AbstractVar[Any]
    theta_star: eqx.AbstractVar[Any]
    weight: eqx.AbstractVar[Any]

    @property
    def latent(self) -> tuple[int, int]:
        """How many normal numbers make the inputs and the label noise of one sample."""
        return self.root.shape[0], self.root_eps.shape[0]

    def samples(self, z: Array, eps: Array) -> tuple[Any, Any]:
        """The x and y made from standard normal z (b, r) and eps (b, k)."""
        x = z @ self.root if self.root.ndim == 2 else z * self.root[None, :]
        return x, x @ self.theta_star + eps @ self.root_eps

    def standardised(self, theta: Array) -> Array:
        """R(θ − θ*), (r, k): the error in directions of unit variance."""
        error = theta - self.theta_star
        return self.root @ error if self.root.ndim == 2 else self.root[:, None] * error

    def pull(self, cotangent: Array) -> Array:
        """Rᵀ times (r, k): a gradient in those directions as a gradient in the predictor."""
        if self.root.ndim == 2:
            return (cotangent.T @ self.root).T
        return self.root[:, None] * cotangent


class Population(QuadraticProblem, Fresh):
    r"""Fresh samples for ever: $y = Vx + \varepsilon$ with Gaussian $x$ and $\varepsilon$.

    $L(\Theta) = \mathrm{weight}\cdot E\|\Theta^T x - y\|^2$ and its gradient are exact
    expectations; the teacher is $\Theta^* = V^T$.

    Args:
        sigma_x: (d, d) covariance of the inputs.
        V: (k, d) teacher.
        sigma_eps: (k, k) covariance of the label noise.
        weight: the factor in front of the expected square; 1 in the papers.
    """

    sigma_x: Any
    V: Any
    sigma_eps: Any
    weight: Any
    root: Any
    root_eps: Any

    def __init__(self, sigma_x: ArrayLike, V: ArrayLike, sigma_eps: ArrayLike, weight: float = 1.0):
        self.V = checks.constant_array("V", V, ndim=(2,))
        k, d = self.V.shape
        if 0 in (k, d):
            raise ValueError(f"V must not be empty, got shape {self.V.shape}")
        self.sigma_x = _covariance("sigma_x", sigma_x, d)
        self.sigma_eps = _covariance("sigma_eps", sigma_eps, k)
        self.weight = np.asarray(checks.number("weight", weight, above=0))
        _, s, Vt = self.svd
        self.root = np.sqrt(s)[:, None] * Vt
        self.root_eps = _root(self.sigma_eps)

    @property
    def d(self) -> int:
        return self.V.shape[1]

    @property
    def k(self) -> int:
        return self.V.shape[0]

    @property
    def vector(self) -> bool:
        return False

    @property
    def theta_star(self) -> Array:
        """The teacher as a predictor, Vᵀ."""
        return self.V.T

    @functools.cached_property
    def svd(self) -> SVD:
        """sigma_x = U diag(s) Vt without its zero eigenvalues."""
        return sealed(thin_svd(self.sigma_x))

    @property
    def row_space(self) -> np.ndarray:
        return self.svd.Vt.T

    @property
    def min_norm(self) -> np.ndarray:
        return self.row_space @ (self.row_space.T @ self.theta_star)

    @property
    def min_loss(self) -> float:
        return float(self.weight * np.trace(self.sigma_eps))

    def loss(self, theta: ArrayLike) -> Number:
        error = self.as_predictor(theta) - self.theta_star
        return self.weight * ((error * (self.sigma_x @ error)).sum() + self.sigma_eps.trace())

    def gradient(self, theta: ArrayLike) -> Array:
        return self.theta_gradient(self.as_predictor(theta)).reshape(np.shape(theta))

    def sample(self, size: int, key: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Draw fresh data.

        Args:
            size: the number of samples.
            key: an integer; the same key gives the same samples.

        Returns:
            x (size, d) and y (size, k).
        """
        size = checks.integer("size", size, at_least=1)
        rng = generator(key, "Population.sample")
        # Without the zero eigenvalues: rounded to 1e-17, their roots would leave the row space.
        x = rng.standard_normal((size, self.d)) @ (self.row_space @ self.root)
        noise = rng.standard_normal((size, self.k)) @ self.root_eps
        return x, x @ self.V.T + noise

    def theta_gradient(self, theta: Array, batch: Batch | None = None) -> Array:
        if batch is None:
            return 2 * self.weight * (self.sigma_x @ (theta - self.theta_star))
        x, y = _fresh(batch)
        return 2 * self.weight / x.shape[0] * (x.T @ weighted(x @ theta - y, batch))

    def net_loss(
        self, net: Callable[..., Any], params: PyTree, batch: Batch | None = None
    ) -> jax.Array:
        if batch is None:
            raise ValueError(
                "Population knows exact expectations for linear nets only: "
                f"{type(net).__name__} needs fresh samples"
            )
        x, y = _fresh(batch)
        residual = net(params, x).reshape(y.shape) - y
        return self.weight / x.shape[0] * weighted(residual * residual, batch).sum()

    def excess(self) -> PopulationExcess:
        _, s, Vt = self.svd
        return PopulationExcess(np.sqrt(s), Vt, self.theta_star, self.weight)


def _fresh(batch: Batch) -> tuple[Any, Any]:
    if batch.x is None:
        raise ValueError("Population has no rows to choose from: a batch needs fresh x and y")
    return batch.x, batch.y if batch.label_noise is None else batch.y + batch.label_noise


def _covariance(name: str, value: ArrayLike, size: int) -> np.ndarray:
    matrix = checks.array(name, value, shape=(size, size))
    scale = np.abs(matrix).max(initial=0.0)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12 * scale):
        worst = np.abs(matrix - matrix.T).max()
        raise ValueError(f"{name} must be symmetric, got an asymmetry of {worst:.3g}")
    matrix = (matrix + matrix.T) / 2
    least = np.linalg.eigvalsh(matrix)[0]
    if least < -1e-12 * scale * size:
        raise ValueError(f"{name} must be positive semi-definite, got an eigenvalue of {least:.3g}")
    # A negative eigenvalue, however small, is a direction without a minimum.
    return matrix if least >= 0 else _root(matrix) @ _root(matrix)


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
