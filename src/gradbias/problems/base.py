"""The two kinds of problem: those that know their minimum, and those that only know their loss."""

import abc
import functools
from collections.abc import Callable
from typing import Any, overload

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.constants import sealed
from ..numerics.linalg import SVD, thin_svd
from ..numerics.pytrees import Module, Value
from ..numerics.types import Array, Number, PyTree
from ._batch import Batch


class Problem(Value):
    """What is fitted: `d` inputs to `k` outputs.

    Methods that take a predictor compute with NumPy when given numbers and with jax when given
    jax arrays, so that they can be used inside an observable.
    """

    @property
    @abc.abstractmethod
    def d(self) -> int:
        """The number of inputs."""

    @property
    @abc.abstractmethod
    def k(self) -> int:
        """The number of outputs."""

    @property
    @abc.abstractmethod
    def vector(self) -> bool:
        """Were the labels given as a vector? Predictors are then vectors at the public edge."""

    @property
    def least(self) -> "Number | None":
        """What the loss of no net can be below; None if that is not known."""
        return None

    @property
    def falls_for_ever(self) -> bool:
        """Is the least loss never reached, so that a small one is no reason to stop?"""
        return False

    @abc.abstractmethod
    def loss(self, theta: ArrayLike) -> Number:
        """The loss of the linear predictor `theta`, (d, k) or (d,)."""

    @abc.abstractmethod
    def gradient(self, theta: ArrayLike) -> Array:
        """The gradient of the loss in `theta`, of its shape."""

    @abc.abstractmethod
    def net_loss(
        self, net: Callable[..., Any], params: PyTree, batch: Batch | None = None
    ) -> Number:
        """The loss of a net's outputs on one draw of the data (jax-level)."""

    @overload
    def as_predictor(self, theta: np.ndarray) -> np.ndarray: ...

    @overload
    def as_predictor(self, theta: ArrayLike) -> Array: ...

    def as_predictor(self, theta: ArrayLike) -> Array:
        """A predictor as a (d, k) matrix, checked."""
        matrix: Any = theta
        if not checks.is_traced(theta):
            matrix = checks.array("theta", theta, ndim=(1, 2))
        need = (self.d, self.k)
        if matrix.shape != need and not (self.k == 1 and matrix.shape == (self.d,)):
            words = f"{need}" + (f" or ({self.d},)" if self.k == 1 else "")
            raise ValueError(f"theta must have shape {words}, got {matrix.shape}")
        return matrix.reshape(need)

    @overload
    def at_edge(self, theta: np.ndarray) -> np.ndarray: ...

    @overload
    def at_edge(self, theta: Array) -> Array: ...

    def at_edge(self, theta: Array) -> Array:
        """A (d, k) predictor in the shape that the user's labels suggest."""
        return theta[..., 0] if self.vector else theta


class FiniteData(Problem):
    """A problem made of samples: inputs X (n, d), labels Y (n, k) or (n,)."""

    X: eqx.AbstractVar[Any]
    Y: eqx.AbstractVar[Any]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @property
    def k(self) -> int:
        return 1 if self.vector else self.Y.shape[1]

    @property
    def vector(self) -> bool:
        return self.Y.ndim == 1

    @functools.cached_property
    def svd(self) -> SVD:
        """X = U diag(s) Vt without its zero singular values."""
        return sealed(thin_svd(self.X))

    @property
    def row_space(self) -> np.ndarray:
        """(d, r) orthonormal basis of the directions that the data see."""
        return self.svd.Vt.T

    @property
    def rank(self) -> int:
        """The dimension of the row space, under the library's one rank threshold."""
        return self.row_space.shape[1]


def checked_data(X: ArrayLike, Y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels, a sample a row; a ValueError says what does not fit."""
    inputs = checks.constant_array("X", X, ndim=(2,))
    labels = checks.constant_array("Y", Y, ndim=(1, 2))
    if 0 in inputs.shape or 0 in labels.shape:
        raise ValueError(f"X and Y must not be empty, got shapes {inputs.shape} and {labels.shape}")
    if len(inputs) != len(labels):
        raise ValueError(
            f"X and Y must have the same number of rows, got {len(inputs)} and {len(labels)}"
        )
    return inputs, labels


Slope = Callable[[Any], Any]


class LossOfOutputs(Module):
    """A loss of the outputs XΘ of a (d, k) predictor: all that compiled code asks of it.

    Its gradient in Θ is XᵀR, with one row of R for every sample.
    """

    @property
    def convex(self) -> bool:
        """Is the loss convex in the outputs, as far as is known?"""
        return True

    @abc.abstractmethod
    def theta_gradient(self, theta: Array, batch: Batch | None = None) -> Array:
        """The gradient in a (d, k) predictor on one draw of the data (jax-level)."""

    def some(self, batch: Batch | None) -> tuple[Any, Slope] | None:
        """The inputs of a draw of some samples, and R as a function of their outputs (jax-level).

        None of all samples.
        """
        return None

    def excess(self) -> Callable[[Any], Any] | None:
        """The loss above its minimum as a function of the predictor; None if that is not known."""
        return None


class Quadratic(LossOfOutputs):
    """Squared loss of a (d, k) predictor."""

    @abc.abstractmethod
    def excess(self) -> Callable[[Any], Any]:
        """The map from a (d, k) predictor to its loss above the minimum.

        A PyTree of arrays, so that it can be passed into compiled code. It never subtracts the
        minimum from the loss, which would lose every digit below 1e-16 of it.
        """


class QuadraticProblem(Problem, Quadratic):
    """Squared loss: the gradient lives in predictor space and the minimum is known."""

    @property
    def least(self) -> "Number | None":
        return 0.0

    @property
    @abc.abstractmethod
    def row_space(self) -> np.ndarray:
        """(d, r) orthonormal basis of the directions that the data see."""

    @property
    @abc.abstractmethod
    def min_norm(self) -> np.ndarray:
        """The minimiser of least Frobenius norm."""

    @property
    @abc.abstractmethod
    def min_loss(self) -> float:
        """The least loss of any linear predictor."""

    @property
    def rank(self) -> int:
        """The dimension of the row space, under the library's one rank threshold."""
        return self.row_space.shape[1]
