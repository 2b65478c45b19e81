"""The mean of any per-sample loss."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.precision import host, to_numpy
from ..numerics.types import Array, Number
from ._mean_loss import DataLoss
from ._sample_losses import FunctionLoss
from .base import checked_data


class Samples(DataLoss):
    """L = (1/n) Σ loss(output_i, y_i): simulation, charges and noise for any loss.

    Args:
        loss: `loss(output, y)` of one sample, written with jax.numpy. Outputs and labels are
            vectors (k,), or scalars when Y is (n,).
        X: (n, d) data.
        Y: (n, k) or (n,) labels.
        minimum: what L cannot be below, 0.0 for most losses; a run has converged when it is within
            `until.gap` of it. Where it is not given, a run has converged when its gradient is so
            small that as much time again would lower the loss by less than the gap.
    """

    per_sample: Callable[[Any, Any], Any] = eqx.field(static=True)
    X: Any
    Y: Any
    minimum: Any

    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        X: ArrayLike,
        Y: ArrayLike,
        minimum: float | None = None,
    ):
        if not callable(loss):
            raise ValueError(f"loss must be a function of (output, y), got {loss!r:.80}")
        self.per_sample = loss
        self.X, self.Y = checked_data(X, Y)
        known = minimum is not None
        self.minimum = np.asarray(checks.number("minimum", minimum)) if known else None

    @property
    def least(self) -> "Number | None":
        return self.minimum

    def loss(self, theta: ArrayLike) -> Number:
        matrix = self.as_predictor(theta)
        if checks.is_traced(theta):
            return self._value(matrix)
        return float(self._on_host(self._value, matrix))

    def gradient(self, theta: ArrayLike) -> Array:
        matrix = self.as_predictor(theta)
        if checks.is_traced(theta):
            return jax.grad(self._value)(matrix).reshape(np.shape(theta))
        return self._on_host(jax.grad(self._value), matrix).reshape(np.shape(theta))

    @property
    def sample_loss(self) -> FunctionLoss:
        return FunctionLoss(self.per_sample)

    @property
    def convex(self) -> bool:
        """Nobody knows."""
        return False

    def _value(self, theta) -> jax.Array:
        return jnp.mean(self.sample_loss.values(self.X @ theta, self.Y))

    @host
    def _on_host(self, function, theta) -> np.ndarray:
        return to_numpy(function(jnp.asarray(theta)))
