"""When what is known about gradient flow may be used for gradient descent."""

from typing import NamedTuple

from ...numerics import checks
from .._problem import LeastSquares, Params
from .._units import PARAMETER, TIME, homogeneous
from ._certificate import certificate


class StepRule(NamedTuple):
    """Whether bounds for gradient flow may be read as bounds for gradient descent.

    Attributes:
        step: the step times the largest eigenvalue of the kernel at these parameters.
        largest: the step times a bound on that eigenvalue at all later times of the flow.
        certified: `largest` is at most 1.
        level: the imbalance level c at these parameters; descent moves it, so ask again later.
    """

    step: float
    largest: float
    certified: bool
    level: float


@homogeneous({"level": 2 * PARAMETER}, lr=TIME)
def step_rule(problem: LeastSquares, params: Params, lr: float) -> StepRule:
    """May bounds for gradient flow be used for gradient descent with this step?

    Yes while lr·λ_max(kernel) ≤ 1 at every step, which is a rule from measurements and no theorem:
    of 480 random runs, 376 kept to it and none of these broke Theorem 1's bound. That it holds
    at the start is not enough: it did in all 480, and 63 broke the bound, because from a small
    init the kernel grows. So `certified` asks it of a bound on the kernel along all of the flow;
    `step` is for asking again along a run.

    Args:
        problem: its own weight.
        params: W1 (D, h) and W2 (h, m).
        lr: the step on the problem's own loss.
    """
    lr = checks.number("lr", lr, above=0)
    told = certificate(problem, params)
    return StepRule(lr * told.k_max, lr * told.ceiling, lr * told.ceiling <= 1, told.c)
