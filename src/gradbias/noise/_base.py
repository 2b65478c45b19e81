"""What a noise is: to a step, to an SDE, and to whoever wants its covariance."""

import abc
from typing import ClassVar

import numpy as np

from ..nets import Net
from ..numerics.precision import host, require_float64
from ..numerics.pytrees import Value
from ..numerics.types import Array, Integer, PyTree
from ..problems import Batch, Problem
from ..problems.base import LossOfOutputs
from ._spread import Spread


class Noise(Value):
    """Where the randomness of a step comes from: `DataNoise` or `ParameterNoise`.

    Attributes:
        not_closed: why a run with this noise has no exact closure, where `in_basis` finds none.
        lasts: does it go on where every sample is fitted? The loss then never comes to rest.
    """

    not_closed: ClassVar[str] = "the noise leaves the row space of the data"
    lasts: ClassVar[bool] = False

    @abc.abstractmethod
    def check(self, problem: Problem, steps: int | None) -> None:
        """Raise a ValueError if this noise does not fit the problem or a run of `steps` steps."""

    @abc.abstractmethod
    def batch(self, problem: Problem | LossOfOutputs, key: Integer, step: Integer) -> Batch | None:
        """What one step sees of the data; None for all of it (jax-level).

        Args:
            problem: what is fitted, reduced or not.
            key: of the run: an integer, or `numerics.counter_rng.seed` of it.
            step: a whole number; may be traced.
        """

    @abc.abstractmethod
    def added(self, key: Integer, step: Integer, params: PyTree) -> PyTree:
        """What is added to the gradient of one step; None for nothing (jax-level)."""

    @abc.abstractmethod
    def in_basis(self, basis: np.ndarray) -> "Noise | None":
        """The same noise with inputs written in an orthonormal basis; None if they leave it."""

    @abc.abstractmethod
    def spread(self, problem: Problem | LossOfOutputs) -> Spread:
        """A square root σ of the covariance of one stochastic gradient (jax-level).

        It does not change along a run: ask for it once, outside the loop.
        """

    @abc.abstractmethod
    def factor(self, problem: Problem, net: Net, params: PyTree) -> np.ndarray:
        """σ as a dense (D, m) matrix with Σ = σσᵀ, in the order of `ravel_pytree(params)`."""

    @abc.abstractmethod
    def covariance(self, problem: Problem, net: Net, params: PyTree) -> np.ndarray:
        """Σ, the (D, D) covariance of one stochastic gradient, without learning rate.

        Rows are in the order of `jax.flatten_util.ravel_pytree(params)`: dicts by sorted name.
        """

    @host
    def kick_size(
        self, problem: Problem | LossOfOutputs, net: Net, params: PyTree
    ) -> tuple[int, ...]:
        """The shape of the normal numbers that `kick` takes."""
        return self.spread(problem).size(problem, net, params)

    def kick(self, problem: Problem | LossOfOutputs, net: Net, params: PyTree, z: Array) -> PyTree:
        """σz, shaped like the parameters: of covariance Σ if z is standard normal (jax-level)."""
        require_float64("noise.kick")
        return self.spread(problem).kick(problem, net, params, z)
