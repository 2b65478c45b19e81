"""Noise in the gradient itself, whatever the data."""

import abc
from typing import ClassVar

import numpy as np

from ..nets import Net
from ..numerics.counter_rng import stream
from ..numerics.precision import host
from ..numerics.types import Integer, PyTree
from ..problems import Problem
from ..problems.base import LossOfOutputs
from ._base import Noise
from ._covariance import checked, refuse_size
from ._spread import FactorSpread, Spread


class ParameterNoise(Noise):
    """A random vector of the parameters' shape, added to the gradient of every step.

    It moves parameters that the data cannot, so there is no closure. Write `draw` and `factor`
    for an own law; the rest follows.
    """

    not_closed: ClassVar[str] = "parameter noise moves what the data do not reach"
    lasts: ClassVar[bool] = True

    @abc.abstractmethod
    def draw(self, key: Integer, params: PyTree) -> PyTree:
        """One draw, of the structure and shapes of `params` and of mean zero (jax-level)."""

    def check(self, problem: Problem, steps: int | None) -> None:
        """It fits every problem."""

    def batch(self, problem: Problem | LossOfOutputs, key: Integer, step: Integer) -> None:
        return None

    def added(self, key: Integer, step: Integer, params: PyTree) -> PyTree:
        return self.draw(stream(key, step, type(self).__name__), params)

    def in_basis(self, basis: np.ndarray) -> None:
        return None

    def spread(self, problem: Problem | LossOfOutputs) -> Spread:
        return FactorSpread(self)

    @host
    def covariance(self, problem: Problem, net: Net, params: PyTree) -> np.ndarray:
        params = checked(problem, net, params)
        refuse_size("covariance", params)
        factor = np.asarray(self.factor(problem, net, params))
        return factor @ factor.T
