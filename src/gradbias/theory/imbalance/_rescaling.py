"""Other conventions: the scaled net of App. D, and steps against times."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from .._problem import LeastSquares, Params, two_layers
from ._coordinates import split


class Rescaled(NamedTuple):
    """A net with entries of order 1 whose output carries the scale, moving along the same path.

    Attributes:
        params: W1 and W2 times h^α.
        output: outputs are to be multiplied by this, h^(−2α).
        time: time t of the original flow, and a step of descent, times this: h^(2α).
        kappa: √m/h^(2α − ½), the scale in front of a net normalised by 1/√(mh).
    """

    params: dict[str, np.ndarray]
    output: float
    time: float
    kappa: float


class FlowTime(NamedTuple):
    """The time of gradient flow that steps of gradient descent stand for.

    Attributes:
        own: on the problem's own loss, lr·steps.
        half_sum: on ½‖Y − XΘ‖², 2·weight·lr·steps; with weight 1/n that is 2·lr·steps/n.
    """

    own: np.ndarray
    half_sum: np.ndarray


def ntk_rescaling(params: Params, alpha: float) -> Rescaled:
    """App. D: small weights, or weights of order 1 with a factor in front of the net.

    Gradient flow on L(U, V) at time t is gradient flow on L(h^(−α)Ũ, h^(−α)Ṽ) at time h^(2α)t,
    with Ũ = h^α U and Ṽ = h^α V; gradient descent with step lr is descent with step h^(2α)lr.

    Args:
        params: W1 (D, h) and W2 (h, m).
        alpha: the exponent.
    """
    W1, W2 = two_layers(params)
    alpha = checks.number("alpha", alpha)
    h, m = map(float, W2.shape)
    scaled = {"W1": h**alpha * W1, "W2": h**alpha * W2}
    return Rescaled(scaled, h ** (-2 * alpha), h ** (2 * alpha), m**0.5 * h ** (0.5 - 2 * alpha))


def flow_time(problem: LeastSquares, lr: float, steps: ArrayLike) -> FlowTime:
    """The time of gradient flow after `steps` steps of gradient descent.

    Args:
        problem: its weight sets the second clock.
        lr: the step on the problem's own loss.
        steps: numbers of steps, of any shape.
    """
    lr = checks.number("lr", lr, above=0)
    own = np.asarray(lr * checks.array("steps", steps))
    return FlowTime(own, np.asarray(split(problem).speed * own))
