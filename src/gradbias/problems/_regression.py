"""Least squares on finite data."""

import abc
import os
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.pytrees import Module
from ..numerics.types import Array, Number, PyTree
from ._batch import Batch, rows, weighted
from ._table import LOSSES, Loss, Table, columns_of
from .base import FiniteData, QuadraticProblem, checked_data


class SpectralExcess(Module):
    """weight·‖s Vᵀθ − B‖²: the loss above its minimum, in the singular basis of X.

    Vt is None when θ is already written in that basis.
    """

    s: Any
    Vt: Any
    B: Any
    weight: Any

    def __call__(self, theta: Array) -> Number:
        rotated = theta if self.Vt is None else self.Vt @ theta
        residual = self.s[:, None] * rotated - self.B
        return self.weight * (residual * residual).sum()


class Rows(Module):
    """Squared loss on finite data: all that noise asks of it.

    Attributes:
        weight: the factor in front of the sum of squares.
        labels: (n, k).
    """

    weight: eqx.AbstractVar[Any]
    labels: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def outputs(self, theta: Array) -> Array:
        """The (n, k) outputs of a (d, k) predictor (jax-level)."""

    @abc.abstractmethod
    def pull(self, cotangent: Array) -> Array:
        """The (d, k) gradient of ⟨cotangent, outputs⟩ in the predictor (jax-level)."""


class Regression(FiniteData, QuadraticProblem, Rows):
    r"""Least squares, $L(\Theta) = \mathrm{weight}\cdot\|X\Theta - Y\|_F^2$.

    The papers normalise differently, so the weight is explicit; `Regression.mean`, `.half_mean`
    and `.half_sum` name the three conventions.

    Args:
        X: (n, d) data, a sample a row; any rank, n above or below d.
        Y: (n, k) or (n,) labels; they need not be fittable.
        weight: the factor in front of the sum of squares.
    """

    X: Any
    Y: Any
    weight: Any

    def __init__(self, X: ArrayLike, Y: ArrayLike, weight: float):
        self.X, self.Y = checked_data(X, Y)
        self.weight = np.asarray(checks.number("weight", weight, above=0))

    @classmethod
    def mean(cls, X: ArrayLike, Y: ArrayLike) -> "Regression":
        """L = (1/n)‖XΘ − Y‖²."""
        X = checks.constant_array("X", X, ndim=(2,))
        return cls(X, Y, 1 / max(len(X), 1))

    @classmethod
    def half_mean(cls, X: ArrayLike, Y: ArrayLike) -> "Regression":
        """L = (1/2n)‖XΘ − Y‖²."""
        X = checks.constant_array("X", X, ndim=(2,))
        return cls(X, Y, 0.5 / max(len(X), 1))

    @classmethod
    def half_sum(cls, X: ArrayLike, Y: ArrayLike) -> "Regression":
        """L = ½‖XΘ − Y‖²."""
        return cls(X, Y, 0.5)

    @classmethod
    def from_table(
        cls,
        table: "Table | str | os.PathLike[str]",
        target: str | Sequence[str],
        features: Sequence[str] | None = None,
        loss: Loss = "half_mean",
    ) -> "Regression":
        """Least squares on the columns of a table.

        Nothing is scaled, centred or filled in: columns are taken as they are.

        Args:
            table: a CSV file with a line of names, or a `pandas.DataFrame`.
            target: the column of labels; several for several outputs.
            features: the columns of inputs, in this order; by default all others.
            loss: "mean", "half_mean" or "half_sum", as the constructors of these names.
        """
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r:.80}")
        X, Y = columns_of(table, target, features)
        return getattr(cls, loss)(X, Y)

    @property
    def labels(self) -> Array:
        """The labels as an (n, k) matrix."""
        return self.Y.reshape(self.n, self.k)

    @property
    def min_norm(self) -> np.ndarray:
        U, s, Vt = self.svd
        return self.at_edge(Vt.T @ ((U.T @ np.asarray(self.labels)) / s[:, None]))

    @property
    def min_loss(self) -> float:
        U = self.svd.U
        return float(self.weight * np.sum((self.labels - U @ (U.T @ self.labels)) ** 2))

    def loss(self, theta: ArrayLike) -> Number:
        residual = self.X @ self.as_predictor(theta) - self.labels
        return self.weight * (residual * residual).sum()

    def gradient(self, theta: ArrayLike) -> Array:
        return self.theta_gradient(self.as_predictor(theta)).reshape(np.shape(theta))

    def seen(self, batch: Batch | None) -> tuple[Any, Any, Any]:
        """The inputs, labels and weight of one draw; the batch gradient is unbiased."""
        if batch is None:
            return self.X, self.labels, self.weight
        if batch.x is not None:
            X = batch.x
            Y = batch.y
        elif batch.indices is not None:
            X = rows(self.X, batch.indices)
            Y = rows(self.labels, batch.indices)
        else:
            X = self.X
            Y = self.labels
        if batch.label_noise is not None:
            Y = Y + batch.label_noise
        return X, Y, self.weight * (self.n / X.shape[0])

    def theta_gradient(self, theta: Array, batch: Batch | None = None) -> Array:
        X, Y, weight = self.seen(batch)
        return 2 * weight * (X.T @ weighted(X @ theta - Y, batch))

    def net_loss(
        self, net: Callable[..., Any], params: PyTree, batch: Batch | None = None
    ) -> Number:
        X, Y, weight = self.seen(batch)
        residual = net(params, X).reshape(Y.shape) - Y
        return weight * weighted(residual * residual, batch).sum()

    def outputs(self, theta: Array) -> Array:
        return self.X @ theta

    def pull(self, cotangent: Array) -> jax.Array:
        return (cotangent.T @ self.X).T  # 2–3 × faster than X.T @ …, which XLA transposes first

    def excess(self) -> SpectralExcess:
        U, s, Vt = self.svd
        return SpectralExcess(s, Vt, U.T @ self.labels, self.weight)
