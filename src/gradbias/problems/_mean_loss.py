"""The mean over samples of a loss of their outputs."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..numerics.types import Array, Number, PyTree
from ._batch import Batch, rows, weighted
from ._sample_losses import log_sum_exp
from .base import FiniteData, LossOfOutputs, Slope


class MeanLoss(LossOfOutputs):
    """L = (1/n) Σ loss(output_i, y_i): what compiled code asks of it.

    Attributes:
        inputs: (n, d), in the coordinates that are computed in.
        targets: (n, k) or (n,).
        sample_loss: of one sample.
    """

    inputs: eqx.AbstractVar[Any]
    targets: eqx.AbstractVar[Any]
    sample_loss: eqx.AbstractVar[Any]

    def theta_gradient(self, theta: Array, batch: Batch | None = None) -> Array:
        X, slope = self._seen(batch)
        # Contracting the first axis as it lies in memory: faster than X.T @ …
        return (slope(X @ theta).T @ X).T

    def some(self, batch: Batch | None) -> tuple[Any, Slope] | None:
        if batch is None or (batch.indices is None and batch.x is None):
            return None
        return self._seen(batch)

    def net_loss(
        self, net: Callable[..., Any], params: PyTree, batch: Batch | None = None
    ) -> Number:
        """The loss of a net's outputs on one draw of the data (jax-level)."""
        X, Y = self._drawn(batch)
        outputs = net(params, X).reshape(len(X), -1)
        return jnp.mean(weighted(self.sample_loss.values(outputs, Y), batch))

    def log_net_loss(self, net: Callable[..., Any], params: PyTree) -> Number:
        """The logarithm of the loss on all data, of a loss that has margins (jax-level)."""
        return self.log_mean(net(params, self.inputs).reshape(len(self.inputs), -1))

    def log_mean(self, outputs: Array) -> Number:
        """The logarithm of the mean loss of (n, k) outputs, of a loss that has margins."""
        each = self.sample_loss.log_values(outputs, self.targets)
        return log_sum_exp(each) - math.log(len(outputs))

    def _seen(self, batch: Batch | None) -> tuple[Any, Slope]:
        X, Y = self._drawn(batch)
        return (
            X,
            lambda outputs: weighted(self.sample_loss.slopes(outputs, Y), batch) * (1 / len(X)),
        )

    def _drawn(self, batch: Batch | None) -> tuple[Any, Any]:
        X = self.inputs
        Y = self.targets
        if batch is None:
            return X, Y
        if batch.x is not None:
            X = batch.x
            Y = batch.y.reshape((-1, *Y.shape[1:]))
        elif batch.indices is not None:
            X = rows(X, batch.indices)
            Y = rows(Y, batch.indices)
        if batch.label_noise is not None:
            Y = Y + batch.label_noise.reshape(Y.shape)
        return X, Y


class DataLoss(MeanLoss, FiniteData):
    """A mean over the user's own data, as they gave them."""

    @property
    def inputs(self) -> Array:
        return self.X

    @property
    def targets(self) -> Array:
        return self.Y
