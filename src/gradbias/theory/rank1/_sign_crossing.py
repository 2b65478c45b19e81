"""Does ξ change its sign on the way, or come to rest at the saddle? The flow in few scalars.

The state is the inside of v1 in the singular basis of the data, and one boost φ_k for every pair:
u + v grows by e^φ and u − v shrinks by it.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.integrate import DOP853, OdeSolver, Radau

from ...numerics.evaluations import Exhausted, limited
from .._problem import SingularBasis

STEPS = 2000  # a hundred are usual
EVALUATIONS = 100_000  # a few thousand are usual
RTOL = 1e-12
# at rest: θ has shrunk by that, and shrinks in as many steps more
REST = 1e-8
SETTLED = 20


class Crossing(NamedTuple):
    """What happens to ξ.

    Attributes:
        sign: of ξ at the end; 0 if it stays zero.
        known_from: "start" or "integration".
        saddle: does the flow come to rest at θ = 0?
        inside: (r,) the inside of v1 when that was known.
    """

    sign: int
    known_from: str
    saddle: bool
    inside: np.ndarray


class ReducedFlow:
    """Gradient flow on a rank-1 net, exactly, in r + L − 1 scalars."""

    def __init__(
        self,
        curvature: np.ndarray,
        minimiser: np.ndarray,
        inside: np.ndarray,
        u: np.ndarray,
        v: np.ndarray,
    ):
        self.curvature = curvature
        self.minimiser = minimiser
        self.r = len(inside)
        self.plus = np.sum((u + v) ** 2, axis=1) / 4
        self.minus = np.sum((u - v) ** 2, axis=1) / 4
        self.overlap = np.sum(u * v, axis=1)
        self.start = np.concatenate([inside, np.zeros(len(u))])

    def overlaps(self, state: np.ndarray) -> np.ndarray:
        """ω_k, without cancellation at the start."""
        phi = state[self.r :]
        return self.overlap + self.plus * np.expm1(2 * phi) - self.minus * np.expm1(-2 * phi)

    def velocity(self, time: float, state: np.ndarray) -> np.ndarray:
        """The derivative of the state."""
        a = state[: self.r]
        omega = self.overlaps(state)
        xi = np.prod(omega)
        pull = self.curvature * (xi * a - self.minimiser)
        return np.concatenate([-xi * pull, -(a @ pull) * excluding(omega)])

    def size(self, state: np.ndarray) -> float:
        """‖Pθ‖."""
        return float(abs(np.prod(self.overlaps(state))) * np.linalg.norm(state[: self.r]))

    def above_zero(self, state: np.ndarray) -> float:
        """The loss minus that of θ = 0."""
        a = state[: self.r]
        xi = np.prod(self.overlaps(state))
        return float(xi * ((self.curvature * a) @ (xi * a / 2 - self.minimiser)))


def excluding(omega: np.ndarray) -> np.ndarray:
    """The product of all but one, for each; a quotient would not survive a zero."""
    before = np.cumprod(np.concatenate([[1.0], omega[:-1]])) if len(omega) else omega
    after = np.cumprod(np.concatenate([[1.0], omega[:0:-1]]))[::-1] if len(omega) else omega
    return before * after


def follow(view: SingularBasis, inside: np.ndarray, u: np.ndarray, v: np.ndarray) -> Crossing:
    """Follow ξ until its sign is final."""
    curvature = view.curvature
    fastest = np.max(curvature, initial=0.0)
    if fastest > 0:  # a unit of time: where the flow ends does not depend on it
        curvature = curvature / fastest
    flow = ReducedFlow(curvature, view.minimiser, inside, u, v)
    state = flow.start
    known = "start"
    if not _is_final(flow, state, u, v) and view.minimiser.any():
        known = "integration"
        state, saddle = _integrated(flow)
        if saddle:
            return Crossing(0, known, True, state[: flow.r])
    sign = int(np.prod(np.sign(flow.overlaps(state))))
    return Crossing(sign, known, False, state[: flow.r])


def _is_final(flow: ReducedFlow, state: np.ndarray, u: np.ndarray, v: np.ndarray) -> bool:
    """Can ξ no longer reach zero?"""
    total = np.linalg.norm(u + v, axis=1) + np.linalg.norm(u - v, axis=1)
    # ω_k = 0 asks ‖P_R v1‖² to fall by (‖u+v‖ − ‖u−v‖)²/4, and it cannot fall below zero.
    inside = np.linalg.norm(state[: flow.r])
    return bool(np.all(inside * total < 2 * np.abs(flow.overlap))) or flow.above_zero(state) < 0


@np.errstate(over="ignore", invalid="ignore")  # in trial steps, which are then made shorter
def _integrated(flow: ReducedFlow) -> tuple[np.ndarray, bool]:
    """The state where the loss is below that of θ = 0, or where it rests; and whether it rests."""
    if not flow.velocity(0.0, flow.start).any():
        if flow.overlap.all() and flow.start[: flow.r].any():
            raise ValueError("params must not be so small that their products underflow")
        return flow.start, True
    a, phi = np.split(flow.start, [flow.r])
    size = np.max(np.abs(a)) or np.linalg.norm(flow.minimiser)
    atol: Any = RTOL * np.concatenate([np.full_like(a, size), np.ones_like(phi)])
    for method in (DOP853, Radau):  # the second one for large starts, which are stiff
        velocity = limited(flow.velocity, EVALUATIONS)
        try:
            with warnings.catch_warnings():  # a singular matrix in a step that is made shorter
                warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
                solver = method(velocity, 0.0, flow.start, np.inf, rtol=RTOL, atol=atol)
                rests = _decided(flow, solver)
        except (Exhausted, ValueError):  # the latter from a matrix that is not finite
            continue
        if rests is not None:
            return solver.y, rests
    raise ValueError(
        "params start too near to the saddle at theta = 0, or too large: the integration that "
        "tells to which side the flow leaves it came to no end"
    )


def _decided(flow: ReducedFlow, solver: OdeSolver) -> bool | None:
    """Step until it is known whether the flow comes to rest at θ = 0; None if it never is."""
    last = largest = flow.size(flow.start)
    target = float(np.linalg.norm(flow.minimiser))
    settled = 0
    for _ in range(STEPS):
        if solver.step() is not None:
            return None
        if flow.above_zero(solver.y) < 0:
            return False
        now = flow.size(solver.y)
        largest = max(largest, now)
        # A sign changes within a step or two; only a saddle is approached by ever smaller ones.
        settled = settled + 1 if now < last and now < REST * min(largest, target) else 0
        if settled == SETTLED:
            return True
        last = now
    return None
