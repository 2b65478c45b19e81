r"""How far finite steps move the gap δ = ‖v1‖² − s² of a balanced net, to first order in lr.

One step of size lr with the gradient g in the predictor changes it by exactly
$\mathrm{lr}^2\xi^2[\|g\|^2 - (v_1\cdot g)^2/s^2]$. Summed along gradient flow, with second moments
of g where it is random, that is the gap at the end. The flow is followed in the mirror's time τ,
in which it does not slow down near θ = 0, and in units of the start: $v_1 = \rho^{1/N}w$ and
$\theta = \rho\,\sigma^{N-1}w$ with $\rho = \|\theta_0\|$ and $\sigma = \|w\|$, 1 at the start.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import DOP853, Radau

from ...numerics import checks
from ...numerics.evaluations import Exhausted, limited
from ...numerics.linalg import norm
from .._problem import LeastSquares, SingularBasis, predictor, project
from ..potentials._depth import checked_depth
from ._balanced_limit import balanced_limit

RTOL = 1e-8
TAIL = 1e-12  # of the loss at the start: where the integration stops, for the sum follows it
SMALL = 1e-120
STIFF = 1e3  # condition times depth, beyond which explicit steps are the slower ones
STEPS = 10_000
EVALUATIONS = 1_000_000


class GradientMoments(NamedTuple):
    """E‖g‖² and E(w·g)² of the gradient g in the predictor."""

    square: float
    along: float


# From the error Pθ − θ*, and Pw, both in the singular basis of the data.
MomentsOf = Callable[[np.ndarray, np.ndarray], GradientMoments]


class BalancedFlow:
    """Gradient flow from a balanced start in r scalars.

    Args:
        view: the problem.
        inside: (r,) the start in its singular basis.
        outside: the norm of what lies outside of it.
        depth: N, finite, at least 2.
    """

    def __init__(self, view: SingularBasis, inside: np.ndarray, outside: float, depth: float):
        self.view = view
        self.m = depth - 1
        self.rho = math.hypot(norm(inside), outside)
        self.start = inside / self.rho
        self.kappa = outside / self.rho

    def outer(self, a: np.ndarray) -> tuple[float, float]:
        """σ² and σ^{N−1}."""
        square = a @ a + self.kappa**2
        return float(square), float(square ** (self.m / 2))

    def error(self, a: np.ndarray) -> np.ndarray:
        """Pθ − θ*."""
        return self.rho * self.outer(a)[1] * a - self.view.minimiser

    def stiffness(self, a: np.ndarray) -> np.ndarray:
        """The derivative of the gradient Λ(Pθ − θ*) in a, (r, r)."""
        square, xi = self.outer(a)
        inner = np.eye(len(a)) + self.m * np.outer(a, a) / (square or 1.0)
        return self.rho * xi * self.view.curvature[:, None] * inner

    def excess(self, a: np.ndarray) -> float:
        """The loss above its minimum."""
        error = self.error(a)
        return float((self.view.curvature * error) @ error) / 2


def final_gap(
    problem: LeastSquares,
    view: SingularBasis,
    theta0: ArrayLike,
    depth: int,
    lr: float,
    moments: MomentsOf,
) -> float:
    """δ∞ from a balanced start, to first order in lr.

    Args:
        problem: with one output.
        view: `singular_basis(problem)`.
        theta0: the predictor of the start.
        depth: N, finite.
        lr: the learning rate.
        moments: of the gradient in the predictor, along the flow.
    """
    N = checked_depth(depth, finite=True)
    lr = checks.number("lr", lr, at_least=0)
    start = predictor("theta0", theta0, problem)
    if not start.any():
        raise ValueError("theta0 must not be zero: balanced layers are then all zero, a saddle")
    if N == 1:
        return 0.0
    if balanced_limit(problem, start, depth).saddle:
        raise ValueError("theta0 must not lie on the line from which gradient flow runs into 0")
    inside, outside = project(view.basis, start)
    return lr * _summed(BalancedFlow(view, inside, norm(outside), N), moments)


@np.errstate(over="ignore", invalid="ignore")  # in trial steps, which are then made shorter
def _summed(flow: BalancedFlow, moments: MomentsOf) -> float:
    """δ∞/lr: what the steps add to the gap, summed along the flow."""
    curvature = flow.view.curvature
    r = len(flow.start)
    if r == 0:  # nothing moves
        return 0.0
    # Errors, gradients and time in units of the largest there can be: atol then has a meaning.
    unit = max(flow.rho, norm(flow.view.minimiser))
    steepest = float(np.max(curvature)) * unit
    if not SMALL < steepest < 1 / SMALL:
        raise ValueError(
            "problem and theta0 must be of moderate size, for squares of gradients are summed: "
            f"the largest curvature times the largest predictor is {steepest:.3g}"
        )

    def velocity(time: float, state: np.ndarray) -> np.ndarray:
        a = state[:r]
        error = flow.error(a)
        square, xi = flow.outer(a)
        moment = moments(error, a)
        along = moment.along / square if square > 0 else 0.0
        drift = flow.rho / unit * xi * ((moment.square - along) / steepest**2)
        return np.concatenate([-(curvature * error) / steepest, [drift]])

    def jacobian(time: float, state: np.ndarray) -> np.ndarray:
        # The gap does not act back, and Newton's iteration in the solver needs no exact row.
        result = np.zeros((r + 1, r + 1))
        result[:r, :r] = -flow.stiffness(state[:r]) / steepest
        return result

    start = np.append(flow.start, 0.0)
    rate = limited(velocity, EVALUATIONS)
    stiff = (flow.m + 1) * np.max(curvature) > STIFF * np.min(curvature)
    if stiff:
        solver: Any = Radau(rate, 0.0, start, np.inf, rtol=RTOL, atol=RTOL, jac=jacobian)
    else:
        solver = DOP853(rate, 0.0, start, np.inf, rtol=RTOL, atol=RTOL)
    highest = flow.excess(flow.start)
    enough = max(TAIL * highest, RTOL**2 * steepest * unit)  # the latter is the solver's own error
    with contextlib.suppress(Exhausted):
        for _ in range(STEPS):
            if flow.excess(solver.y[:r]) <= enough:
                return float(solver.y[r]) * steepest * unit
            if solver.step() is not None:
                break
    raise ValueError(
        "the flow that the gap is summed along came to no end: theta0 is too near to the saddle "
        "at theta = 0, or the data are too ill-conditioned (the loss fell to "
        f"{flow.excess(solver.y[:r]) / highest:.3g} of its start)"
    )
