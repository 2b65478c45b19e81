"""Balanced nets: zero imbalance, so that no rate is guaranteed by it, and closed forms."""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import rank_threshold
from .._problem import LeastSquares
from .._units import PARAMETER, PREDICTOR, TIME, homogeneous
from ._coordinates import Split, split, times

WHITE = 1e-9  # relative spread of singular values that are taken as equal


@homogeneous(PARAMETER, by="theta0", theta0=PREDICTOR)
def balanced_two_layer(
    problem: LeastSquares, theta0: ArrayLike, width: int, Q: ArrayLike | None = None
) -> dict[str, np.ndarray]:
    r"""Two layers with product `theta0` and U1ᵀU1 = VᵀV.

    With $M = \Theta_0^T\Phi_1\Phi_1^T\Theta_0$ and orthonormal Q (h, m):
    $W_1 = \Theta_0 M^{-1/4}Q^T$, $W_2 = QM^{1/4}$. The predictor's path does not depend on Q.

    Args:
        problem: balance is in its row space; the whole W1ᵀW1 − W2W2ᵀ is not zero.
        theta0: (D, m), or (D,) for one output.
        width: h, at least m.
        Q: (h, m) orthonormal columns; by default the first m unit vectors.

    Returns:
        W1 (D, h) and W2 (h, m).
    """
    parts = split(problem)
    theta = np.asarray(problem.as_predictor(theta0))
    m = problem.k
    width = checks.integer("width", width, at_least=1)
    if width < m:
        raise ValueError(
            f"width must be at least the number of outputs {m}, got {width}: the formula needs "
            "orthonormal Q (width, outputs)"
        )
    frame = _frame(Q, width, m)
    _, s, Rt = scipy.linalg.svd(parts.Phi1.T @ theta, full_matrices=False)
    _refuse_singular(parts, theta, s)
    root = np.sqrt(s)
    return {
        "W1": ((theta @ Rt.T) / root) @ Rt @ frame.T,
        "W2": frame @ (Rt.T * root) @ Rt,
    }


@homogeneous(PREDICTOR, by="theta0", theta0=PREDICTOR, t=TIME)
def balanced_whitened(problem: LeastSquares, theta0: ArrayLike, t: ArrayLike) -> np.ndarray:
    r"""The predictor's path under gradient flow from a balanced net, in closed form.

    For one output and data whose singular values are all equal. The part w in the row space
    turns towards the solution and grows at once; the part outside is carried along as
    $\sqrt{|w(t)|/|w(0)|}$. From opposite to the solution it ends at zero, a saddle.

    Args:
        problem: one output, all singular values equal; the time is its own.
        theta0: (D,) or (D, 1), not zero in the row space.
        t: times, of any shape.

    Returns:
        Θ(t), the shape of `t` followed by that of the problem's predictors.
    """
    parts = split(problem)
    theta = problem.as_predictor(theta0)[:, 0]
    at = times(t)
    if problem.k != 1:
        raise ValueError(f"problem must have one output for this closed form, got {problem.k}")
    sigma = one_singular_value(parts)
    start = parts.Phi1.T @ theta
    size = float(np.linalg.norm(start))
    if size == 0:
        raise ValueError("theta0 must not be zero in the row space: no balanced net has it")
    clock = np.asarray(parts.speed * sigma**2 * at)
    w = _path(start, parts.B[:, 0] / sigma, clock)
    carried = np.sqrt(np.linalg.norm(w, axis=-1) / size)
    path = w @ parts.Phi1.T + carried[..., None] * (theta - parts.Phi1 @ start)
    return path if problem.vector else path[..., None]


def one_singular_value(parts: Split) -> float:
    """The common singular value of whitened data, or a ValueError."""
    if parts.rank == 0:
        raise ValueError("problem must have data that are not all zero")
    if np.ptp(parts.sigma) > WHITE * parts.sigma[0]:
        raise ValueError(
            "problem must have equal singular values for this closed form, got "
            f"{parts.sigma[-1]:.6g} to {parts.sigma[0]:.6g}: see gradbias.problems.whitened"
        )
    return float(parts.sigma.mean())


def _path(w0: np.ndarray, target: np.ndarray, t: np.ndarray) -> np.ndarray:
    """w(t), (…, r), for S = I and labels `target`: positive terms, none of which overflows.

    With b = |B|, q = w0·B/b, the rest p of w0 and |w0| ± q = plus, minus:
    w = (½(plus − minus e^(−2bt)) B/b + e^(−bt) p)/u. Near the saddle, where plus is tiny, u is
    made of the shares of plus and of minus e^(−2bt) in their sum.
    """
    b = float(np.linalg.norm(target))
    size = float(np.linalg.norm(w0))
    towards = target / b if b > 0 else np.zeros_like(target)
    q = float(w0 @ towards)
    rest = w0 - q * towards
    plus, minus = _both_sides(size, q, float(np.linalg.norm(rest)))
    decay = np.exp(-2 * b * t)
    fallen = minus * decay
    share = fallen / (plus + fallen) if plus > 0 else np.ones_like(t)  # the other is 1 − share
    grown = -np.expm1(-2 * b * t) / (4 * b) if b > 0 else t / 2
    first = share * (size / minus) if q < 0 else decay * size / (plus + fallen)
    u = 2 * (first + share * t * plus + grown * (plus * (1 - share) + minus * share))
    along = (plus - fallen) / (2 * u)
    across = np.exp(-b * t) / u
    return along[..., None] * towards + across[..., None] * rest


def _both_sides(size: float, q: float, side: float) -> tuple[float, float]:
    """The two numbers |w0| ± q; the smaller one from their product, side²."""
    larger = size + abs(q)
    smaller = side * (side / larger)
    return (larger, smaller) if q >= 0 else (smaller, larger)


def _frame(Q: ArrayLike | None, width: int, m: int) -> np.ndarray:
    if Q is None:
        return np.eye(width, m)
    frame = checks.array("Q", Q, shape=(width, m))
    off = float(np.abs(frame.T @ frame - np.eye(m)).max())
    if off > 1e-10:
        raise ValueError(f"Q must have orthonormal columns, got QᵀQ − I of {off:.3g}")
    return frame


def _refuse_singular(parts: Split, theta: np.ndarray, s: np.ndarray) -> None:
    """M must be invertible: else what lies outside the row space has nothing to hang on."""
    m = theta.shape[1]
    largest = np.linalg.svd(theta, compute_uv=False)
    rank = int(np.sum(s > rank_threshold(largest, theta.shape)))
    if rank < m:
        raise ValueError(
            f"theta0 must have rank {m} (the outputs) inside the row space, got {rank}; the row "
            f"space has {parts.rank} directions. Balance forces VVᵀ = (Θ0ᵀPΘ0)^½, with P the "
            "projection on the row space: a combination of outputs that theta0 has only outside "
            "of it cannot be made. For theta0 of lower rank see gradbias.init.balanced"
        )
