"""Noise in the gradient itself, whatever the data."""

import abc
from typing import Any, ClassVar

import numpy as np

from ..nets import Net
from ..numerics.counter_rng import stream
from ..numerics.precision import host
from ..problems import Problem
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
        return FactorSpread(self)

    @host
    def covariance(self, problem: Problem, net: Net, params: Any) -> np.ndarray:
        params = checked(problem, net, params)
        refuse_size("covariance", params)
        factor = np.asarray(self.factor(problem, net, params))
        return factor @ factor.T
