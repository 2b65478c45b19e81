"""Noise in what a step sees of the data: random weights of the samples, noise on their labels."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..numerics.counter_rng import normal, stream
from ..numerics.precision import host, require_float64
from ..numerics.types import Integer, Number, PyTree
from ..problems import Batch, Problem
from ..problems._population import Fresh
from ._base import Noise
from ._covariance import checked, dense_factor, fresh_covariance, refuse_size, sample_covariance
from ._spread import FreshSpread, SampleSpread, Spread


class DataNoise(Noise):
    """Random weights of the samples, and noise on their labels.

    A step descends the loss whose sample i counts `weights[i]` times and whose label is
    y_i + label_noise[i]. Write `draw` and `moments` for an own law; the rest follows.
    """

    @abc.abstractmethod
    def draw(self, key: Integer, n: int, k: int = 1) -> tuple[Any, Any]:
        """One draw for n samples with k outputs (jax-level).

        Args:
            key: of this step and law, for `gradbias.noise.uniform` and its siblings.
            n: the number of samples.
            k: the number of outputs.

        Returns:
            weights (n,) of mean one, or None for all ones; label noise (n, k) of mean zero
            whatever the weights, or None.
        """

    @abc.abstractmethod
    def moments(self, n: int) -> tuple[Any, Any]:
        """Cov(weights), (n, n) or None, and the variance of the label noise, a number or (n,).

        Jax-level: what depends on the law's own fields is written with jax.numpy. Where label
        noise depends on the weights, its variance is E[w²ε²]/E[w²]. Return 0.0 or None where
        there is none. Noise on different labels is uncorrelated.
        """

    def compact_moments(self, n: int) -> tuple[Any, Any]:
        """`moments` with a number a for a covariance a·(I − 11ᵀ/n): cheap for many samples."""
        return self.moments(n)

    @property
    def fresh(self) -> int | None:
        """How many samples a step draws from a Population; None if it has no meaning there."""
        return None

    def check(self, problem: Problem, steps: int | None) -> None:
        if isinstance(problem, Fresh) and self.fresh is None:
            raise ValueError(
                f"noise: {type(self).__name__} acts on the rows of finite data, but Population "
                "draws fresh samples, with label noise of its own: use gb.Minibatch(batch_size)"
            )

    def batch(self, problem: Any, key: Integer, step: Integer) -> Batch:
        key = stream(key, step, type(self).__name__)
        if isinstance(problem, Fresh):
            return self.fresh_batch(problem, key)
        return self.rows_batch(key, problem.n, problem.k)

    def rows_batch(self, key: Integer, n: int, k: int) -> Batch:
        """A draw from finite data; laws that see few rows do it by their indices."""
        weights, label_noise = self.draw(key, n, k)
        for name, value, need in (("weights", weights, (n,)), ("label noise", label_noise, (n, k))):
            if value is not None and np.shape(value) != need:
                raise ValueError(
                    f"{type(self).__name__}.draw must return {name} of shape {need}, "
                    f"got {np.shape(value)}"
                )
        return Batch(weights=weights, label_noise=label_noise)

    def fresh_batch(self, problem: Fresh, key: Integer) -> Batch:
        """Samples drawn from a Population."""
        inputs, outputs = problem.latent
        size = self._fresh_size()
        # Drawn together: the labels' noise first, so that padded inputs would not change it.
        z = normal(key, (size, outputs + inputs))
        x, y = problem.samples(z[:, outputs:], z[:, :outputs])
        return Batch(x=x, y=y)

    def added(self, key: Integer, step: Integer, params: PyTree) -> None:
        return None

    def in_basis(self, basis: np.ndarray) -> "DataNoise | None":
        return self

    def spread(self, problem: Any) -> Spread:
        require_float64("noise.spread")
        if isinstance(problem, Fresh):
            return FreshSpread(self._fresh_size())
        covariance, variance = self._traced_moments(problem.n)
        root = None if covariance is None else _square_root(covariance)
        if _is_zero(variance):
            return SampleSpread(root, None)
        return SampleSpread(root, jnp.sqrt(_mean_squares(covariance, problem.n) * variance))

    @host
    def factor(self, problem: Problem, net: Net, params: PyTree) -> np.ndarray:
        params = checked(problem, net, params)
        self.check(problem, 0)
        spread = self.spread(problem)
        size = spread.size(problem, net, params)
        refuse_size("factor", params, int(np.prod(size)))
        return np.asarray(dense_factor(spread, problem, net, params, size))

    @host
    def covariance(self, problem: Problem, net: Net, params: PyTree) -> np.ndarray:
        params = checked(problem, net, params)
        self.check(problem, 0)
        refuse_size("covariance", params)
        if isinstance(problem, Fresh):
            return fresh_covariance(problem, net, params, self._fresh_size())
        n = problem.n  # pyright: ignore[reportAttributeAccessIssue]
        covariance, variance = self.compact_moments(n)
        weights = None if covariance is None else np.asarray(covariance)
        squares = None if _is_zero(variance) else np.asarray(_mean_squares(weights, n) * variance)
        return sample_covariance(problem, net, params, weights, squares)

    def _traced_moments(self, n: int) -> tuple[Any, Any]:
        try:
            return self.compact_moments(n)
        except jax.errors.TracerArrayConversionError as error:
            raise ValueError(
                f"{type(self).__name__}.moments must use jax.numpy where it computes with the "
                "law's own fields: inside a run they are traced, and NumPy cannot take them"
            ) from error

    def _fresh_size(self) -> int:
        if self.fresh is None:
            raise ValueError(f"noise: {type(self).__name__} has no meaning on Population")
        return self.fresh


def _is_zero(variance: "Number | None") -> bool:
    """Is there no label noise at all? A traced variance may be anything."""
    return variance is None or (type(variance) in (int, float) and bool(variance == 0))


def _mean_squares(covariance: "Number | None", n: int) -> Number:
    """E[w²] = 1 + Var(w), (n,) or a number."""
    if covariance is None:
        return 1.0
    if np.ndim(covariance) == 0:
        return 1.0 + covariance * (1 - 1 / n)
    return 1.0 + jnp.diagonal(jnp.asarray(covariance))


def _square_root(covariance: Number) -> jax.Array:
    if np.ndim(covariance) == 0:
        return jnp.sqrt(covariance)
    values, vectors = jnp.linalg.eigh(jnp.asarray(covariance))
    return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :]) @ vectors.T
