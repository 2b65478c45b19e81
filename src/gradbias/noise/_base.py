"""The two kinds of noise: in what a step sees of the data, and in the gradient itself."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..numerics.counter import normal, stream
from ..numerics.precision import host
from ..problems import Batch, Problem
from ..problems._population import Fresh
from ._covariance import checked, dense_factor, fresh_covariance, refuse_size, sample_covariance
from ._spread import FactorSpread, FreshSpread, SampleSpread, Spread


class Noise(eqx.Module):
    """Where the randomness of a step comes from: `DataNoise` or `ParameterNoise`.

    Attributes:
        not_closed: why a run with this noise has no exact closure, where `in_basis` finds none.
    """

    not_closed: ClassVar[str] = "the noise leaves the row space of the data"

    @abc.abstractmethod
    def check(self, problem: Problem, steps: int | None) -> None:
        """Raise a ValueError if this noise does not fit the problem or a run of `steps` steps."""

    @abc.abstractmethod
    def batch(self, problem, key, step) -> Batch | None:
        """What one step sees of the data; None for all of it (jax-level).

        Args:
            problem: what is fitted, reduced or not.
            key: of the run: an integer, or `numerics.counter.seed` of it.
            step: a whole number; may be traced.
        """

    @abc.abstractmethod
    def added(self, key, step, params) -> Any:
        """What is added to the gradient of one step; None for nothing (jax-level)."""

    @abc.abstractmethod
    def in_basis(self, basis: np.ndarray) -> "Noise | None":
        """The same noise with inputs written in an orthonormal basis; None if they leave it."""

    @abc.abstractmethod
    def spread(self, problem) -> Spread:
        """A square root σ of the covariance of one stochastic gradient (jax-level).

        It does not change along a run: ask for it once, outside the loop.
        """

    @abc.abstractmethod
    def factor(self, problem: Problem, net: Net, params: Any) -> np.ndarray:
        """σ as a dense (D, m) matrix with Σ = σσᵀ, in the order of `ravel_pytree(params)`."""

    @abc.abstractmethod
    def covariance(self, problem: Problem, net: Net, params: Any) -> np.ndarray:
        """Σ, the (D, D) covariance of one stochastic gradient, without learning rate.

        Rows are in the order of `jax.flatten_util.ravel_pytree(params)`: dicts by sorted name.
        """

    def kick_size(self, problem, net, params) -> tuple[int, ...]:
        """The shape of the normal numbers that `kick` takes."""
        return self.spread(problem).size(problem, net, params)

    def kick(self, problem, net, params, z) -> Any:
        """σz, shaped like the parameters: of covariance Σ if z is standard normal (jax-level)."""
        return self.spread(problem).kick(problem, net, params, z)


class DataNoise(Noise):
    """Random weights of the samples, and noise on their labels.

    A step descends the loss whose sample i counts `weights[i]` times and whose label is
    y_i + label_noise[i]. Write `draw` and `moments` for an own law; the rest follows.
    """

    @abc.abstractmethod
    def draw(self, key, n: int, k: int = 1) -> tuple[Any, Any]:
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

        Where label noise depends on the weights, its variance is E[w²ε²]/E[w²]. Return 0.0 or
        None where there is none. Noise on different labels is uncorrelated.
        """

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

    def batch(self, problem, key, step) -> Batch:
        key = stream(key, step, type(self).__name__)
        if isinstance(problem, Fresh):
            return self.fresh_batch(problem, key)
        return self.rows_batch(key, problem.n, problem.k)

    def rows_batch(self, key, n: int, k: int) -> Batch:
        """A draw from finite data; laws that see few rows do it by their indices."""
        weights, label_noise = self.draw(key, n, k)
        for name, value, need in (("weights", weights, (n,)), ("label noise", label_noise, (n, k))):
            if value is not None and np.shape(value) != need:
                raise ValueError(
                    f"{type(self).__name__}.draw must return {name} of shape {need}, "
                    f"got {np.shape(value)}"
                )
        return Batch(weights=weights, label_noise=label_noise)

    def fresh_batch(self, problem: Fresh, key) -> Batch:
        """Samples drawn from a Population."""
        inputs, outputs = problem.latent
        size = self._fresh_size()
        # Drawn together: the labels' noise first, so that padded inputs would not change it.
        z = normal(key, (size, outputs + inputs))
        x, y = problem.samples(z[:, outputs:], z[:, :outputs])
        return Batch(x=x, y=y)

    def added(self, key, step, params) -> None:
        return None

    def in_basis(self, basis: np.ndarray) -> "DataNoise | None":
        return self

    def spread(self, problem) -> Spread:
        if isinstance(problem, Fresh):
            return FreshSpread(self._fresh_size())
        covariance, variance = self.moments(problem.n)
        root = None if covariance is None else _square_root(covariance)
        if is_zero(variance):
            return SampleSpread(root, None)
        squares = 1.0 if covariance is None else 1.0 + jnp.diagonal(jnp.asarray(covariance))
        return SampleSpread(root, jnp.sqrt(squares * variance))

    @host
    def factor(self, problem: Problem, net: Net, params: Any) -> np.ndarray:
        params = checked(problem, net, params)
        self.check(problem, 0)
        spread = self.spread(problem)
        size = spread.size(problem, net, params)
        refuse_size("factor", params, int(np.prod(size)))
        return np.asarray(dense_factor(spread, problem, net, params, size))

    @host
    def covariance(self, problem: Problem, net: Net, params: Any) -> np.ndarray:
        params = checked(problem, net, params)
        self.check(problem, 0)
        refuse_size("covariance", params)
        if isinstance(problem, Fresh):
            return fresh_covariance(problem, net, params, self._fresh_size())
        covariance, variance = self.moments(problem.n)  # pyright: ignore[reportAttributeAccessIssue]
        labels = None if is_zero(variance) else np.asarray(variance)
        weights = None if covariance is None else np.asarray(covariance)
        return sample_covariance(problem, net, params, weights, labels)

    def _fresh_size(self) -> int:
        if self.fresh is None:
            raise ValueError(f"noise: {type(self).__name__} has no meaning on Population")
        return self.fresh


class ParameterNoise(Noise):
    """A random vector of the parameters' shape, added to the gradient of every step.

    It moves parameters that the data cannot, so there is no closure. Write `draw` and `factor`
    for an own law; the rest follows.
    """

    not_closed: ClassVar[str] = "parameter noise moves what the data do not reach"

    @abc.abstractmethod
    def draw(self, key, params) -> Any:
        """One draw, of the structure and shapes of `params` and of mean zero (jax-level)."""

    def check(self, problem: Problem, steps: int | None) -> None:
        """It fits every problem."""

    def batch(self, problem, key, step) -> None:
        return None

    def added(self, key, step, params) -> Any:
        return self.draw(stream(key, step, type(self).__name__), params)

    def in_basis(self, basis: np.ndarray) -> None:
        return None

    def spread(self, problem) -> Spread:
        return FactorSpread(self.factor)

    @host
    def covariance(self, problem: Problem, net: Net, params: Any) -> np.ndarray:
        params = checked(problem, net, params)
        refuse_size("covariance", params)
        factor = np.asarray(self.factor(problem, net, params))
        return factor @ factor.T


def is_zero(variance: Any) -> bool:
    """Is there no label noise at all? A traced variance may be anything."""
    return variance is None or (isinstance(variance, (int, float)) and variance == 0)


def _square_root(covariance: Any) -> Any:
    values, vectors = jnp.linalg.eigh(jnp.asarray(covariance))
    return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :]) @ vectors.T
