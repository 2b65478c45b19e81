"""The predictor, the parameters, the loss, and the distance to a given predictor."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..nets import LinearNet, Net
from ..numerics import checks
from ..numerics.pytrees import named_leaves
from ..numerics.types import Array, Number, PyTree
from ..problems import Population, Problem
from ..problems.base import LossOfOutputs
from .base import Measurement, Observable, OfPredictor, refuse


class Theta(OfPredictor):
    """The end-to-end predictor Θ of a linear net, (d, k), or (d,) when Y is (n,)."""

    @property
    def name(self) -> str:
        return "theta"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_linear(self, net)
        return self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ("feature",) if problem.vector else ("feature", "output")

    def of_theta(self, problem: Problem, theta: Array) -> Array:
        return problem.at_edge(theta)


class Params(Observable):
    """All parameters, a variable for each."""

    @property
    def name(self) -> str:
        return "params"

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> PyTree:
        return dict(named_leaves(params))


class Loss(Observable):
    """The loss on all of the data, its minimum included."""

    @property
    def name(self) -> str:
        return "loss"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_loss(self, problem, net)
        return PredictorLoss() if through_predictor(problem, net) else self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> Number:
        return loss_value(problem, net, params)


class PredictorLoss(OfPredictor):
    """The loss where it is one of the predictor."""

    @property
    def name(self) -> str:
        return "loss"

    def of_theta(self, problem: Problem, theta: Array) -> Number:
        return problem.loss(theta)


class DistanceTo(OfPredictor):
    """‖Θ − target‖_F; see `distance_to`."""

    target: Any

    @property
    def name(self) -> str:
        return "distance_to"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_linear(self, net)
        return DistanceTo(np.asarray(problem.as_predictor(self.target)))

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def of_theta(self, problem: Problem, theta: Array) -> jax.Array:
        error = theta - problem.as_predictor(jnp.asarray(self.target))
        return jnp.sqrt(jnp.sum(error * error))


def distance_to(theta: ArrayLike) -> DistanceTo:
    """The Frobenius distance of a linear net's predictor to `theta`.

    Args:
        theta: (d, k), or (d,) with one output.
    """
    return DistanceTo(checks.array("theta", theta, ndim=(1, 2)))


def loss_value(problem: Problem, net: Any, params: PyTree) -> Number:
    """The loss of these parameters: through the predictor where that is all that counts."""
    if through_predictor(problem, net):
        return problem.loss(net.predictor(params))
    return problem.net_loss(net, params)


def through_predictor(problem: Problem, net: Net) -> bool:
    """Is the loss one of the predictor alone?"""
    return isinstance(net, LinearNet) and isinstance(problem, LossOfOutputs)


def need_linear(observable: Observable, net: Net) -> None:
    """Refuse nets without a predictor."""
    if not isinstance(net, LinearNet):
        refuse(observable, "a linear net, whose parameters make a predictor", net)


def need_loss(observable: Observable, problem: Problem, net: Net) -> None:
    """Refuse the one pair whose loss is an expectation that nobody can compute."""
    if isinstance(problem, Population) and not isinstance(net, LinearNet):
        refuse(observable, "finite data, or a linear net on a Population", net)


theta: Theta = Theta()
params: Params = Params()
loss: Loss = Loss()
