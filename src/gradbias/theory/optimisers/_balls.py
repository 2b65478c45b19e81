"""Decoupled decay: the ball it stays in, and the constrained minimiser that it finds."""

from typing import NamedTuple

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from ...geometry import L2, Geometry, GeometryLike, Linf, Spectral, as_geometry
from ...numerics import checks
from ...problems import Population
from .._problem import LeastSquares, least_squares

ROUNDS = 100_000  # of projected gradient steps
CLOSE = 1e-13  # of the gap at zero: the minimiser is found


class DecayBall(NamedTuple):
    """The minimiser in the ball ‖θ‖ ≤ 1/λ.

    Attributes:
        theta: shaped like `problem.min_norm`.
        gap: the Frank–Wolfe gap there: an upper bound of λ times the loss above the minimum.
        radius: 1/λ.
    """

    theta: np.ndarray
    gap: float
    radius: float


def decay_ball(problem: LeastSquares, weight_decay: float, geometry: GeometryLike) -> DecayBall:
    r"""Where steepest descent with decoupled decay λ ends: the least loss with ‖θ‖ ≤ 1/λ.

    $x \leftarrow (1-\eta\lambda)x + \eta s(-\nabla L)$ is the Frank–Wolfe method in that ball, for
    steps with Ση = ∞ and η → 0; of a linear net of one layer. Sign descent, Lion and Adam (ε = 0)
    have `Linf`, Muon `Spectral`. Where the data do not determine the minimiser, it is one of many.

    Args:
        problem: Regression or Population.
        weight_decay: λ.
        geometry: `Linf` (bounded least squares by scipy), `L2` (a ridge) or `Spectral`
            (projected gradients).
    """
    least_squares(problem)
    decay = checks.number("weight_decay", weight_decay, above=0)
    geometry = as_geometry("geometry", geometry)
    A, B = _root(problem)
    if isinstance(geometry, Linf):
        bounds = (-1 / decay, 1 / decay)
        columns = [scipy.optimize.lsq_linear(A, b, bounds, method="bvls", tol=1e-15).x for b in B.T]
        theta = np.stack(columns, axis=1)
    elif isinstance(geometry, L2):
        theta = _ridge(A, B, 1 / decay)
    elif isinstance(geometry, Spectral):
        theta = _projected(A, B, 1 / decay, geometry)
    else:
        raise ValueError(
            f"geometry must be Linf, L2 or Spectral, got {type(geometry).__name__}: no other "
            "minimiser is known here"
        )
    theta = problem.at_edge(theta)
    return DecayBall(theta, frank_wolfe_gap(problem, theta, decay, geometry), 1 / decay)


def frank_wolfe_gap(
    problem: LeastSquares, theta: ArrayLike, weight_decay: float, geometry: GeometryLike
) -> float:
    r"""$\|\nabla L\|_* + \lambda\langle\theta,\nabla L\rangle$: zero where θ is stationary.

    Not negative for ‖θ‖ ≤ 1/λ; over λ it bounds how far the loss is above the least in the ball.

    Args:
        problem: Regression or Population.
        theta: the predictor, (d, k), or (d,) for one output.
        weight_decay: λ.
        geometry: one of `gb.geometry`.
    """
    least_squares(problem)
    decay = checks.number("weight_decay", weight_decay, above=0)
    x = np.asarray(problem.as_predictor(checks.array("theta", theta)))
    gradient = np.asarray(problem.theta_gradient(x))
    dual = as_geometry("geometry", geometry).dual_norm(gradient)
    return float(dual) + decay * float(np.sum(x * gradient))


def _root(problem: LeastSquares) -> tuple[np.ndarray, np.ndarray]:
    """A and B with L = ‖Aθ − B‖² + const."""
    scale = np.sqrt(float(problem.weight))
    if isinstance(problem, Population):
        _, s, Vt = problem.svd
        A = np.sqrt(s)[:, None] * Vt
        return scale * A, scale * (A @ np.asarray(problem.theta_star))
    return scale * np.asarray(problem.X), scale * np.asarray(problem.labels)


def _ridge(A: np.ndarray, B: np.ndarray, radius: float) -> np.ndarray:
    """The minimiser of least norm, or the ridge of this norm: its multiplier is a root."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    kept = s > 1e-13 * s.max(initial=0.0)
    s = s[kept]
    Vt = Vt[kept]
    seen = U[:, kept].T @ B

    def at(mu: float) -> np.ndarray:
        return (s / (s * s + mu))[:, None] * seen

    def excess(mu: float) -> float:
        return float(np.linalg.norm(at(mu))) - radius

    if excess(0.0) <= 0:
        return Vt.T @ at(0.0)
    high = float(s.max() * np.linalg.norm(seen) / radius)  # there the norm is below the radius
    root = scipy.optimize.root_scalar(excess, bracket=(0.0, high), xtol=1e-15 * high).root
    return Vt.T @ at(float(root))


def _projected(A: np.ndarray, B: np.ndarray, radius: float, geometry: Geometry) -> np.ndarray:
    """Accelerated projected gradients in the spectral ball, restarted where they go astray."""
    H = 2 * A.T @ A
    c = 2 * A.T @ B
    length = float(np.linalg.eigvalsh(H)[-1])
    x = np.zeros_like(c)
    if length == 0:
        return x
    ahead = x
    t = 1.0
    least = CLOSE * float(geometry.dual_norm(c))
    for _ in range(ROUNDS):
        new = _nearest(ahead - (H @ ahead - c) / length, radius)
        if np.sum((ahead - new) * (new - x)) > 0:
            ahead = x
            t = 1.0
            continue
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = new + (t - 1) / later * (new - x)
        x = new
        t = later
        gradient = H @ x - c
        if float(geometry.dual_norm(gradient)) + float(np.sum(x * gradient)) / radius <= least:
            break
    return x


def _nearest(x: np.ndarray, radius: float) -> np.ndarray:
    """The nearest point of the spectral ball."""
    U, s, Vt = np.linalg.svd(x, full_matrices=False)
    return (U * np.minimum(s, radius)) @ Vt
