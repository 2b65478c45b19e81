"""Soudry's offset law: w(t) = ŵ log t + w̃ + O(t^{−ν}), with every constant."""

from typing import NamedTuple

import numpy as np

from ...numerics.constants import sealed
from ...problems import Classification
from ._entropy import entropy_gap
from ._hard_margin import need_classes

ON_THE_MARGIN = 1e-8  # of the margin: as far as this beyond it, a sample counts as on it
WEIGHTLESS = 1e-6  # of the largest multiplier
ROUNDS = 200
CLOSE = 1e-14  # of the gradient of a convex function of order one


class Offset(NamedTuple):
    """Where the ℓ2 flow of a linear predictor goes, from any start.

    Attributes:
        w_hat: ŵ, the hard-margin predictor, the factor of log t; (d,) or (d, K).
        w_tilde: w̃, the constant, its part in the span of the support vectors. What else there is
            of it inside the row space depends on the whole path, outside on the start alone.
        exponent: ν = min(μ, θ − 1), of the rest t^{−ν}.
        gamma: γ = 1/‖ŵ‖.
        entropy_gap: of the dual weights p* = γ²α.
        alpha: α, the multipliers of ŵ that the flow picks; (n,) or (n, K).
        mu: μ, the least eigenvalue of Σα_i z_i z_iᵀ in the span of the support vectors.
        theta: θ, the least margin of ŵ off the support; infinite if all samples are on it.
        basis: orthonormal columns that span the support vectors, of predictors as `ravel()`.
        spanning: do the support vectors span all of the data? Then w̃ is whole in the row space.
        residual: of the equations for ŵ and w̃.
    """

    w_hat: np.ndarray
    w_tilde: np.ndarray
    exponent: float
    gamma: float
    entropy_gap: float
    alpha: np.ndarray
    mu: float
    theta: float
    basis: np.ndarray
    spanning: bool
    residual: float


def offset(problem: Classification) -> Offset:
    """The constants of w(t) = ŵ log t + w̃ + O(t^{−ν}), exponential tail, gradient flow.

    The same hold for gradient descent with t = k·lr, and with momentum t = k·lr/(1 − β).

    Args:
        problem: separable, and no sample on the margin without weight.
    """
    problem = need_classes(problem)
    hard = problem.max_margin()
    Z = problem.constraints
    w_hat = np.ravel(hard.w)
    margins = Z @ w_hat
    on = margins <= 1 + ON_THE_MARGIN
    rows = Z[on]
    w_tilde, basis, slope = _constant(rows, w_hat, problem.n)
    alpha = np.zeros(len(Z))
    alpha[on] = np.exp(-rows @ w_tilde) / problem.n
    weightless = on & (alpha <= WEIGHTLESS * alpha.max())
    if weightless.any() or not np.isfinite(slope):
        at = int(np.flatnonzero(weightless)[0]) if weightless.any() else int(np.argmax(on))
        raise ValueError(
            f"offset: the data are degenerate: sample {at // (len(Z) // problem.n)} is on the "
            "margin without weight, and the offset grows like log log t instead"
        )
    mu = float(np.linalg.eigvalsh(basis.T @ (rows.T * alpha[on]) @ rows @ basis)[0])
    theta = float(margins[~on].min()) if not on.all() else np.inf
    span = np.linalg.matrix_rank(Z)
    shape = np.shape(hard.w)
    shares = alpha / alpha.sum()
    return sealed(
        Offset(
            w_hat=hard.w,
            w_tilde=w_tilde.reshape(shape),
            exponent=min(mu, theta - 1),
            gamma=hard.gamma,
            entropy_gap=entropy_gap(shares),
            alpha=_by_sample(problem, alpha),
            mu=mu,
            theta=theta,
            basis=basis,
            spanning=basis.shape[1] == span,
            residual=max(hard.residual, slope),
        )
    )


def _constant(rows: np.ndarray, w_hat: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """argmin_v (1/n)Σ e^{−z·v} + ŵ·v in the span of some rows, that span, and the slope left.

    Damped Newton: the function is convex, and bounded below exactly where ŵ has multipliers that
    are all positive.
    """
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    basis = Vt[s > 1e-10 * s[0]].T
    inside = rows @ basis
    goal = basis.T @ w_hat
    v = np.zeros(len(goal))

    def value(v: np.ndarray) -> float:
        with np.errstate(over="ignore"):
            return float(np.exp(-inside @ v).sum() / n + goal @ v)

    slope = np.inf
    for _ in range(ROUNDS):
        weights = np.exp(-inside @ v) / n
        gradient = goal - inside.T @ weights
        slope = float(np.linalg.norm(gradient) / np.linalg.norm(goal))
        if slope <= CLOSE:
            break
        hessian = (inside.T * weights) @ inside
        step = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        size = 1.0
        while value(v + size * step) > value(v) + 1e-4 * size * float(gradient @ step):
            size /= 2
            if size < 1e-12:
                break
        if size < 1e-12:
            break
        v = v + size * step
    return basis @ v, basis, slope if slope < 1e-8 else np.inf


def _by_sample(problem: Classification, alpha: np.ndarray) -> np.ndarray:
    if problem.vector:
        return alpha
    each = np.zeros((problem.n, problem.k))
    each[problem.Y == 0] = alpha
    return each
