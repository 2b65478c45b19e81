"""Infinitely wide Gaussian nets with variance 1/h: random at the start, deterministic after it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.integrate

from ...numerics import checks
from ...numerics.evaluations import Exhausted, limited
from ...numerics.linalg import norm
from .._problem import LeastSquares
from ._certificate import least_gram
from ._closed_system import Closed, velocity
from ._coordinates import Split, split

RTOL = 1e-12
STEPS = 100_000  # a few hundred are usual, some thousands for ill-conditioned data
EVALUATIONS = 3_000_000
GAP = 1e-11  # of the trace: what may be missing when the integration stops
LARGEST = 1e8
SMALL = 300  # unknowns up to which a Jacobian is cheap, so that ill-conditioned data are as well


@dataclass(frozen=True, eq=False)
class InfiniteWidth:
    """The limit h → ∞ of gradient flow at α = ½, where all entries start as N(0, 1/h).

    Not a kernel regime: the Gram matrices move. The distance from the solution of least norm
    still vanishes, because U2 becomes orthogonal to everything.

    Attributes:
        end: E, M and N when the integration stopped.
        trace: tr N(∞), which is ‖V(∞)‖².
        residual: a bound on what the trace would still change, not counting rounding.
        unseen: the number D − r of directions that the data do not see.
    """

    end: Closed
    trace: float
    residual: float
    unseen: int

    def distance(self, width: float) -> float:
        """‖Θ(∞) − Θ̂‖_F of a wide net, √((D − r) tr N(∞)/h), up to a factor 1 + O(h^(−½))."""
        width = checks.number("width", width, above=0)
        return float(np.sqrt(self.unseen * self.trace / width))


def infinite_width_limit(problem: LeastSquares) -> InfiniteWidth:
    """Where an infinitely wide net ends: the closed system from (E, M, N) = (B, S, I).

    The imbalance level is 2, so the error falls at least as fast as exp(−2σ_r²t), and what the
    trace can still change is known at every step.

    Args:
        problem: Regression or Population; its weight does not matter.
    """
    parts = split(problem)
    unit = _unit(parts)
    m = parts.B.shape[1]
    if not np.abs(unit.B).max(initial=0.0) < LARGEST:
        raise ValueError(
            f"problem must have labels below {LARGEST:g} times the largest singular value of X, "
            f"got {np.abs(unit.B).max():.3g}: the system cannot be integrated in float64"
        )
    now = Closed(unit.B, np.diag(unit.S), np.eye(m))
    solver, matrices = _solver(unit, now)
    left = _left(unit, now)
    try:
        for _ in range(STEPS):
            if not left > GAP * np.trace(now.N):
                break
            message = solver.step()
            if solver.status != "running":
                raise ValueError(f"problem is too stiff for the infinite-width limit: {message}")
            now = matrices(solver.y)
            left = _left(unit, now)
        else:
            raise Exhausted
    except Exhausted:
        raise ValueError(
            "problem is too ill-conditioned for the infinite-width limit: after "
            f"{STEPS} steps the trace may still change by {left:.3g}"
        ) from None
    top = parts.sigma[0] if parts.rank else 1.0
    end = Closed(top * now.E, top**2 * now.M, now.N)
    return InfiniteWidth(end, float(np.trace(now.N)), left, problem.d - parts.rank)


def infinite_width_trace(problem: LeastSquares) -> float:
    """The trace of N(∞): wide nets end at a distance √((D − r) tr N(∞)/h) from least norm."""
    return infinite_width_limit(problem).trace


def _unit(parts: Split) -> Split:
    """The same with a largest singular value of 1: labels shrink along, predictors stay."""
    top = parts.sigma[0] if parts.rank else 1.0
    return Split(parts.Phi1, parts.sigma / top, parts.B / top, 0.5, 0.0)


def _left(parts: Split, now: Closed) -> float:
    """How much tr N can still change: |tr N'| ≤ 2e(‖B‖ + e), while e falls at the rate k.

    k is at least 2σ_r², and at least what is left of its present value when e is gone (the
    certified rates kA and kC).
    """
    if parts.rank == 0:
        return 0.0
    e = norm(now.E)
    size = norm(parts.B)
    present = np.linalg.eigvalsh(now.M + np.linalg.eigvalsh(now.N)[0] * np.diag(parts.S))[0]
    kept = np.sqrt(max(float(present) ** 2 - 8 * e * (size + e / 2), 0.0))
    return float(2 * e * (size + e / 2) / max(2 * parts.S[-1], kept))


def _last_error(parts: Split) -> float:
    """The error at which the integration will stop, if the rate is the certified kB."""
    if parts.rank == 0:
        return 1.0
    r, m = parts.B.shape
    product = np.linalg.svd(parts.B / parts.sigma[:, None], compute_uv=False)[-1]
    of_V, of_U1 = least_gram(1.0, 1.0, [product * (m <= r), product * (r <= m)])
    trace = m * of_V
    rate = parts.S[-1] * (of_V + of_U1)
    return float(GAP * trace * rate / (2 * norm(parts.B) + 1e-300))


def _solver(parts: Split, start: Closed) -> tuple[Any, Callable[[np.ndarray], Closed]]:
    """An integrator of the closed system, and the matrices in its vector."""
    shapes = [part.shape for part in start]
    cuts = np.cumsum([part.size for part in start])[:-1]

    def matrices(y: np.ndarray) -> Closed:
        pieces = zip(np.split(y, cuts), shapes, strict=True)
        return Closed(*(piece.reshape(shape) for piece, shape in pieces))

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        return np.concatenate([part.ravel() for part in velocity(parts, matrices(y))])

    y0 = np.concatenate([part.ravel() for part in start])
    # E must be followed to where the integration stops, below the tolerance of the others
    small = 0.01 * min(_last_error(parts) / np.sqrt(start.E.size + 1), 1e2 * RTOL * norm(start.E))
    atol = np.concatenate([np.full(start.E.size, small), np.full(y0.size - start.E.size, RTOL)])
    method: Any = scipy.integrate.LSODA if y0.size <= SMALL else scipy.integrate.DOP853
    first = 1e-3 / (1 + norm(parts.B))  # layers grow at ‖B‖: a guess of the solver can overflow
    return method(
        limited(rate, EVALUATIONS), 0.0, y0, np.inf, first_step=first, rtol=RTOL, atol=atol
    ), matrices
