"""Φ: where gradient flow ends."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..._manifold.gradient_flow import Flowing, flow_until, start
from ..._manifold.normal_space import length
from ..._manifold.rank import warn_if_unclear
from ..._manifold.target import Target, target_at
from ...numerics import checks
from ...numerics.precision import host
from ...numerics.types import Array, PyTree
from ._on_manifold import NEAR, Standing, scale, stand

STAGE = 2000  # steps between two looks at the distance from the manifold
# of ‖x‖: where the flow ends and Newton steps begin
STOP_RESIDUAL = 1e-6
STOP_LOSS = 1e-7
NEWTON = 12  # at most
REACHED = 1e-9  # of ‖x‖: a last Newton step below this means that the manifold is reached


@dataclasses.dataclass(frozen=True)
class LimitInfo:
    """How a limit was found, and how good it is.

    Attributes:
        converged: is `.x` a point of the manifold, reached by the flow?
        message: a sentence.
        distance: how far `.x` is from the manifold, by a Newton step.
        residual: ‖residual‖ there; for a loss ‖∇L‖.
        steps: Runge–Kutta steps, rejected ones included.
        polished: how far the Newton steps moved it; the error of the limit is of the order of its
            square (in units of ‖x‖).
        rank: the number of normal directions.
        gap: how clear that number is.
    """

    converged: bool
    message: str
    distance: float
    residual: float
    steps: int
    polished: float
    rank: int
    gap: float


@dataclasses.dataclass(frozen=True)
class LimitPoint:
    """The end of a gradient flow.

    Attributes:
        x: Φ(x0), of the structure of x0.
        info: how it was found; look at `info.converged`.
    """

    x: Any
    info: LimitInfo


class Followed(NamedTuple):
    """A flow that was stopped close to the manifold, or given up."""

    flow: Flowing
    here: Standing
    near: bool
    message: str


@host
def limit_point(
    x0: PyTree,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    rtol: float = 1e-10,
    stop: float | None = None,
    max_steps: int = 100_000,
) -> LimitPoint:
    """Φ(x0): the minimiser that gradient flow from x0 converges to.

    An adaptive flow of order eight until a Newton step to the manifold is `stop`·‖x‖ long, then
    Gauss–Newton steps x − J⁺r (H⁺∇L if only a loss is known). The latter go to the nearest point
    and not to Φ: over a distance ε they differ by a multiple of ε², so the flow does the way.
    Without convergence the result is flagged in `info`, and a warning says why.

    Args:
        x0: the start: an array, or a PyTree such as an equinox module.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².
        rank: the number of normal directions at the end, where the spectrum does not show it.
        rtol: relative tolerance of a step; at most a hundredth of `stop`.
        stop: how close to the manifold the flow goes, relative to ‖x‖; 1e-6, or 1e-7 if only a
            loss is known.
        max_steps: of the flow.
    """
    target, flat = target_at(x0, loss, residual)
    followed = follow(target, flat, None, rank, rtol, stop, max_steps)
    x, here, polished, reached = polish(target, followed, rank)
    good = followed.near and reached
    message = followed.message
    if followed.near and not reached:
        message = (
            "Gauss–Newton steps near the manifold do not converge; probable causes: the residual "
            "does not vanish at the minimum, or the manifold is not smooth there"
        )
    if good:
        warn_if_unclear(here.rank, here.values, "J" if target.squares else "the Hessian")
    else:
        warnings.warn(f"x0: gradient flow did not converge: {message}", stacklevel=3)
    left = float(_left(target, x))
    info = LimitInfo(
        good, message, here.distance, left, int(followed.flow.steps), polished, *here.rank
    )
    return LimitPoint(eqx.combine(target.arrays(x), target.rest), info)


def follow(
    target: Target,
    flat: np.ndarray,
    vectors: np.ndarray | None,
    rank: int | None,
    rtol: float,
    stop: float | None,
    max_steps: int,
) -> Followed:
    """The flow from `flat` to the neighbourhood of the manifold, tangent vectors carried along."""
    stop = STOP_RESIDUAL if stop is None and target.squares else stop
    stop = checks.number("stop", STOP_LOSS if stop is None else stop, above=0, below=1)
    rtol = checks.number("rtol", rtol, above=0, below=1)
    if rtol > stop / 100:
        raise ValueError(
            f"rtol must be at most stop/100 = {stop / 100:.0e}, got {rtol}: close to the manifold "
            "the solver would hover at its own noise"
        )
    max_steps = checks.integer("max_steps", max_steps, at_least=1)
    carried = np.zeros((0, flat.size)) if vectors is None else vectors
    flow = _start(target, flat, carried)
    if not np.isfinite(flow.speed):
        raise ValueError("x0: the gradient of the loss is not finite there (NaN or infinite)")
    rate = np.asarray(scale(flat) / float(flow.speed) if flow.speed > 0 else 1.0)
    atol = np.asarray(rtol / 10 * _smallest(target, flat))
    return _stages(target, flow, rank, rate, rtol, atol, stop, max_steps)


def _stages(target, flow, rank, rate, rtol, atol, stop, max_steps) -> Followed:
    """Ten times less gradient, or some steps, between two looks at the distance."""
    while True:
        point = np.asarray(flow.state[0])
        alive = np.isfinite(point).all() and np.isfinite(flow.speed) and flow.dt > 0
        if not alive:  # a step size of zero is how a flow that blows up in finite time ends
            raise ValueError(
                f"x0: gradient flow left the real numbers after {int(flow.steps)} steps: is the "
                "loss bounded below and smooth?"
            )
        here = _look(target, point, rank)
        if here.distance <= stop * scale(point):
            if here.mismatch <= 0.1:
                return Followed(flow, here, True, "converged")
            if flow.speed == 0 or here.distance == 0:
                return Followed(flow, here, False, "it stands still at a saddle or a bad minimum")
        if flow.speed == 0 or float(flow.speed) * float(rate) < 1e-40 * scale(point):
            return Followed(flow, here, False, _no_minimum(here))
        if flow.steps >= max_steps:
            return Followed(flow, here, False, _too_slow(here, max_steps))
        budget = np.asarray(min(int(flow.steps) + STAGE, max_steps))
        goal = np.asarray(float(flow.speed) / 10)
        flow = _advance(target, flow, rate, goal, budget, np.asarray(rtol), atol)


def _look(target: Target, point: np.ndarray, rank: int | None) -> Standing:
    """The normal space on the way, where a rank that is known for the end may not be there yet."""
    cut = 0.0 if target.squares else NEAR
    try:
        return stand(target, point, rank, cut)
    except ValueError:
        if rank is None:
            raise
        return stand(target, point, None, cut)


def polish(
    target: Target, followed: Followed, rank: int | None
) -> tuple[np.ndarray, Standing, float, bool]:
    """Gauss–Newton steps to the manifold: the point, its standing, the way, and did it arrive?"""
    first = np.asarray(followed.flow.state[0])
    x = first
    here = followed.here
    if not followed.near:
        return x, here, 0.0, False
    # Near the manifold the Hessian's small eigenvalues are those of tangent directions.
    fixed = here.rank.rank if rank is None and not target.squares else rank
    last = np.inf
    for _ in range(NEWTON):
        step = np.asarray(_newton(target, x, here.space))
        far = float(np.linalg.norm(step))
        if not far < 0.9 * last:
            break
        x = x - step
        last = far
        here = stand(target, x, fixed)
        if far <= 1e-14 * scale(x):
            break
    arrived = here.distance <= REACHED * scale(x) and here.mismatch <= 1e-4
    return x, here, float(np.linalg.norm(x - first)), arrived


def _no_minimum(here: Standing) -> str:
    return (
        f"the gradient vanishes, but a Newton step is still {here.distance:.1e} long: the loss may "
        "have its infimum at infinity (logistic and exponential losses on separable data do)"
    )


def _too_slow(here: Standing, max_steps: int) -> str:
    last = here.space.values[-1] / here.space.values[0] if here.rank.rank else 0.0
    return (
        f"{max_steps} steps were not enough, a Newton step is still {here.distance:.1e} long; the "
        f"smallest eigenvalue of the Hessian is {float(last):.0e} of the largest, and steps are "
        "needed in proportion to its inverse: raise max_steps, or use data that are better spread"
    )


def _smallest(target: Target, flat: np.ndarray) -> float:
    """The root mean square of the smallest array that is not zero: small inits need it."""
    ends = np.cumsum([int(np.prod(shape)) for shape in target.shapes])[:-1]
    sizes = [float(np.sqrt(np.mean(part**2))) for part in np.split(flat, ends) if part.size]
    return min((size for size in sizes if size > 0), default=1.0)


@eqx.filter_jit
def _start(target: Target, flat, vectors) -> Flowing:
    return start(target, jnp.asarray(flat), jnp.asarray(vectors))


@eqx.filter_jit
def _advance(target: Target, flow: Flowing, rate, goal, budget, rtol, atol) -> Flowing:
    return flow_until(target, flow, rate, goal, budget, rtol, atol)


@eqx.filter_jit
def _newton(target: Target, flat, space) -> Array:
    return space.solve(target.gradient(flat))


@eqx.filter_jit
def _left(target: Target, flat) -> Array:
    return length(target.residual(flat) if target.squares else target.gradient(flat))
