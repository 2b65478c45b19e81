"""Losses of one sample, as functions of its outputs: their values, logarithms and slopes.

Logarithms are exact at any margin, also where the loss itself is below the smallest double.
"""

import abc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..numerics import checks
from ..numerics.pytrees import Module
from ..numerics.types import Array, Number

FAR = 30.0  # a margin from which on log(1 + e^{−m}) is e^{−m}(1 − e^{−m}/2), to all digits


class LossOfSample(Module):
    """A loss of the outputs of one sample; methods take those of n samples."""

    @abc.abstractmethod
    def values(self, outputs: Array, Y: Array) -> Array:
        """The losses, (n,)."""

    @abc.abstractmethod
    def slopes(self, outputs: Array, Y: Array) -> Array:
        """Their derivatives in the outputs, (n, k)."""


class FunctionLoss(LossOfSample):
    """A user's loss(output, y), written with jax.numpy."""

    function: Callable[[Any, Any], Any] = eqx.field(static=True)

    def values(self, outputs: Array, Y: Array) -> Array:
        losses = jax.vmap(self.function)(outputs.reshape(Y.shape), jnp.asarray(Y))
        if losses.ndim != 1:
            raise ValueError(
                f"loss must return one number for a sample, got shape {losses.shape[1:]}"
            )
        return losses

    def slopes(self, outputs: Array, Y: Array) -> jax.Array:
        shaped = jnp.asarray(outputs).reshape(Y.shape)
        return jax.grad(lambda f: jnp.sum(self.values(f, Y)))(shaped).reshape(outputs.shape)


class MarginLoss(LossOfSample):
    """A decreasing function of the margin of a sample."""

    @abc.abstractmethod
    def log_values(self, outputs: Array, Y: Array) -> Array:
        """The logarithms of the losses, (n,)."""

    @abc.abstractmethod
    def log_weights(self, outputs: Array, Y: Array) -> Array:
        """The logarithms of −∂loss/∂margin of every constraint, (n, K); −∞ where there is none."""


class Exponential(MarginLoss):
    """e^{−m}, m = y·f; labels are signs."""

    def values(self, outputs: Array, Y: Array) -> Array:
        xp = module_of(outputs)
        with np.errstate(over="ignore"):
            return xp.exp(-_margins(outputs, Y))

    def slopes(self, outputs: Array, Y: Array) -> Array:
        return (-Y.reshape(-1) * self.values(outputs, Y))[:, None]

    def log_values(self, outputs: Array, Y: Array) -> Array:
        return -_margins(outputs, Y)

    def log_weights(self, outputs: Array, Y: Array) -> Array:
        return -_margins(outputs, Y)[:, None]


class Logistic(MarginLoss):
    """log(1 + e^{−m}), m = y·f; labels are signs."""

    def values(self, outputs: Array, Y: Array) -> Array:
        return module_of(outputs).logaddexp(0.0, -_margins(outputs, Y))

    def slopes(self, outputs: Array, Y: Array) -> Array:
        with np.errstate(over="ignore"):
            grown = 1 + module_of(outputs).exp(_margins(outputs, Y))
        return (-Y.reshape(-1) / grown)[:, None]

    def log_values(self, outputs: Array, Y: Array) -> Array:
        return log_log1p_exp(-_margins(outputs, Y))

    def log_weights(self, outputs: Array, Y: Array) -> Array:
        return -module_of(outputs).logaddexp(0.0, _margins(outputs, Y))[:, None]


class CrossEntropy(MarginLoss):
    """−log softmax(f)_y; labels are unit vectors."""

    def values(self, outputs: Array, Y: Array) -> Array:
        return module_of(outputs).logaddexp(0.0, _others(outputs, Y))

    def slopes(self, outputs: Array, Y: Array) -> Array:
        xp = module_of(outputs)
        behind = _behind(outputs, Y)
        scale = xp.maximum(xp.max(behind, axis=1, keepdims=True), 0.0)
        each = xp.exp(behind - scale)  # zero where it is the sample's own class
        total = xp.sum(each, axis=1, keepdims=True)
        # Own class last: 1 − s_y, computed as the sum of all others, keeps its digits.
        return (each - Y * total) / (xp.exp(-scale) + total)

    def log_values(self, outputs: Array, Y: Array) -> Array:
        return log_log1p_exp(_others(outputs, Y))

    def log_weights(self, outputs: Array, Y: Array) -> Array:
        xp = module_of(outputs)
        return _behind(outputs, Y) - xp.logaddexp(0.0, _others(outputs, Y))[:, None]


LOSSES = {"logistic": Logistic(), "exponential": Exponential(), "cross_entropy": CrossEntropy()}


def log_sum_exp(x: Array, axis: int | None = None) -> Number:
    """The logarithm of Σ e^x, without overflow; −∞ entries count as nothing."""
    xp = module_of(x)
    largest = xp.max(x, axis=axis, keepdims=True)
    total = xp.sum(xp.exp(x - largest), axis=axis)
    return xp.log(total) + largest.reshape(total.shape)


def log_log1p_exp(a: Array) -> Array:
    """The logarithm of log(1 + e^a), to all digits for every a."""
    xp = module_of(a)
    far = a < -FAR
    near = xp.log(xp.logaddexp(0.0, xp.where(far, -FAR, a)))  # each branch sees only its own
    return xp.where(far, a - 0.5 * xp.exp(xp.where(far, a, -FAR)), near)


def module_of(x: object) -> ModuleType:
    """NumPy for numbers, jax for jax arrays."""
    return jnp if checks.is_jax(x) else np


def _margins(outputs: Array, Y: Array) -> Array:
    return Y.reshape(-1) * outputs[:, 0]


def _behind(outputs: Array, Y: Array) -> Array:
    """f_k − f_y, (n, K); −∞ for the sample's own class."""
    xp = module_of(outputs)
    own = xp.sum(outputs * Y, axis=1, keepdims=True)
    return xp.where(Y > 0, -np.inf, outputs - own)


def _others(outputs: Array, Y: Array) -> Array:
    """The logarithm of Σ e^{f_k − f_y} over the other classes: a smooth maximum of them."""
    return module_of(outputs).asarray(log_sum_exp(_behind(outputs, Y), axis=1))
