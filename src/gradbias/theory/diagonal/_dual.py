"""Newton's method for the dual: r smooth unknowns instead of an integration.

A flow ends at u₀²e^{a}, v₀²e^{−a} with a = Vα in the row space and Vᵀθ = b. That is where
Σ(u₀²e^{a} + v₀²e^{−a}) − b·α is least: convex, smooth, with the Hessian Vᵀdiag(u² + v²)V.
"""

from typing import NamedTuple

import numpy as np

from ._dual_coordinates import RANGE, Frame, frame
from ._fits import Fits
from ._log_point import Point

STEPS = 400
TRIALS = 40
SMALL = 1e-5  # change of a logarithm from which Newton's method needs one step more
PATIENCE = 3  # so many small steps are rounding
LARGEST = 30.0  # change of a logarithm in the first trial of a line search
ROUGH = 1e-2  # accuracy of logarithms on the way
STAGE = 12.0  # how far ln|uv| sinks at once from where uv is of the size of the labels


class Solution(NamedTuple):
    """A point, max|Vᵀθ − b| over the largest of θ and b, and the Newton steps that it took."""

    at: Point
    residual: float
    steps: int


def solve(goal: Fits, start: Point, accuracy: float = 0.0) -> Solution:
    """The minimiser along the row space from `start`, in logarithms to `accuracy` or rounding."""
    at = start
    small = 0
    steps = 0
    while movable(goal, start) and steps < STEPS:
        basis = frame(goal, at)
        gradient = basis.gradient(at)
        if not gradient.any():
            break
        direction = basis.newton(at, gradient)
        change = np.max(np.abs(direction @ basis.C))
        small += change < SMALL
        if small > PATIENCE:
            break
        at = _searched(basis, at, direction, gradient)
        steps = steps + 1
        if change < accuracy:
            break
    return Solution(at, _residual(goal, at), steps)


def movable(goal: Fits, at: Point) -> bool:
    """Is there anything to fit, and anything to fit it with?"""
    return bool(goal.b.size) and bool(np.isfinite(at.log_mass).any())


def sink(goal: Fits, start: Point, by: np.ndarray) -> Solution:
    """Lower ln u² and ln v² by `by` ≥ 0 and solve, in stages that double.

    Each stage is predicted by its tangent: for small uv the unknowns are linear in the logarithm
    of uv, and their slope is a dual solution of a weighted ℓ1 problem.

    Args:
        goal: the fits.
        start: a point that solves it.
        by: (d,), how far each coordinate sinks.
    """
    solution = Solution(start, _residual(goal, start), 0)
    done = 0.0
    steps = 0
    depth = max(-float(np.max(start.height())), STAGE)
    stages = float(np.max(by, initial=0.0)) / depth
    while done < 1.0 and stages > 0:
        part = min(1.0 - done, done + 1.0 / stages)
        at = solution.at
        by_now = part * by
        ahead = at.moved(0.0, by_now)
        if movable(goal, at):
            basis = frame(goal, at)
            ahead = _searched(basis, ahead, basis.tangent(at, by_now), basis.gradient(ahead))
        done += part
        solution = solve(goal, ahead, ROUGH if done < 1.0 else 0.0)
        steps += solution.steps
    return solution._replace(steps=steps)


def _residual(goal: Fits, at: Point) -> float:
    theta = at.theta()
    # Where all of θ may have to vanish, the unit is that of the start.
    least = 1.0 if at.one_signed or not goal.b.any() else 0.0
    size = max(np.max(np.abs(theta)), np.max(np.abs(goal.b), initial=0.0), least)
    misfit = np.max(np.abs(goal.V.T @ theta - goal.b), initial=0.0)
    return float(misfit / size) if size > 0 else 0.0


def _searched(basis: Frame, at: Point, direction: np.ndarray, gradient: np.ndarray) -> Point:
    """A point along `direction` where the slope is at most half of that at the start.

    The function is convex and a trial costs d exponentials, so bracketing is cheap, and safe
    where a full Newton step would overflow.
    """
    a = direction @ basis.C
    weights = _common_units(basis, gradient) * direction
    slope = weights @ gradient
    if not slope < 0:
        return at
    low = 0.0
    high = np.inf
    chosen = at
    length = min(1.0, LARGEST / np.max(np.abs(a)))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(TRIALS):
            trial = at.moved(length * a)
            now = weights @ basis.gradient(trial)
            if abs(now) <= -slope / 2:
                return trial
            if now < 0:
                low = length
                chosen = trial
            else:  # too far, also where it overflowed
                high = length
            length = 2 * length if high == np.inf else (low + high) / 2
    return chosen


def _common_units(basis: Frame, gradient: np.ndarray) -> np.ndarray:
    """(r,) the rows' units, over that of the largest row that is not solved yet."""
    if not basis.level.ndim:
        return np.ones_like(gradient)
    level = basis.level[:, 0]
    top = np.max(level, where=gradient != 0, initial=-np.inf)
    return np.exp(np.clip(level - top, -RANGE, RANGE)) if np.isfinite(top) else np.ones_like(level)
