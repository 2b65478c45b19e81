"""The end of label noise: a weighted ℓ1 problem, its certificate and how fast it is reached."""

import dataclasses

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from ...numerics import checks
from ...problems import Regression
from .._units import CURVATURE, PREDICTOR, homogeneous
from ._fits import Fits, decay_rates, fits

SUPPORT = 1e-9  # of the largest entry: HiGHS leaves rounding below this
TOLERANCE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
STRICT = 1e-8  # of the largest weight: a slack above this is not zero


_RATES = dict.fromkeys(("dual", "rate", "theta_rate"), CURVATURE)


@dataclasses.dataclass(frozen=True)
class L1Certificate:
    """Why a fit has the least weighted ℓ1 norm, or why not.

    Attributes:
        w: (d,) the fit.
        dual: (d,) Xᵀλ of the dual solution with the largest slack: s_j·sign(w_j) on the support.
        rate: the least slack s_j − |Xᵀλ|_j off the support; ∞ if there is nothing off it,
            negative if w is not optimal, −∞ if no λ fits its signs. Along the limiting flow
            u_j² + v_j² decays there as e^{−c·rate·t} at the slowest.
        theta_rate: the same for θ_j = u_j² − v_j², and so for ‖θ − w‖. Larger than `rate` only
            where the least slack is s_j itself, at (Xᵀλ)_j = 0.
        residual: how far w is from a fit, and the dual from its values on the support,
            relatively.
        optimal: no fit has a smaller norm.
        unique: every other fit has a larger one.
    """

    w: np.ndarray
    dual: np.ndarray
    rate: float
    theta_rate: float
    residual: float
    optimal: bool
    unique: bool


@homogeneous(PREDICTOR)
def weighted_l1(problem: Regression) -> np.ndarray:
    r"""The minimiser of $\sum_j s_j |w_j|$ over the least-squares fits, by linear programming.

    Where label noise takes a diagonal net as t → ∞, from any start without zeros: (36), Lemma 6.5.
    The weights s_j = 8·weight·Σ_i X_ij² are those of tr H, so columns count by their size; for
    random signs it is the plain ℓ1 norm. If several w are optimal, one of them; coordinates
    that the data do not see are 0, while a flow leaves them as they started.
    """
    goal = fits(problem)
    rates = decay_rates(problem)
    seen = np.flatnonzero(rates)
    w = np.zeros(problem.d)
    scale = np.max(np.abs(goal.b), initial=0.0)
    if scale == 0:
        return w
    rows = goal.V[seen].T
    found = scipy.optimize.linprog(
        np.tile(rates[seen] / np.max(rates), 2),
        A_eq=np.hstack([rows, -rows]),
        b_eq=goal.b / scale,
        method="highs-ds",
        options=TOLERANCE,
    )
    if found.x is None:
        raise RuntimeError(f"the weighted ℓ1 problem was not solved: {found.message}")
    w[seen] = scale * (found.x[: len(seen)] - found.x[len(seen) :])
    return _polished(goal, w)


def _polished(goal: Fits, w: np.ndarray) -> np.ndarray:
    """A vertex is known by its support: solve for it again, to rounding."""
    on = np.abs(w) > SUPPORT * np.max(np.abs(w))
    exact = np.zeros_like(w)
    exact[on] = np.linalg.lstsq(goal.V[on].T, goal.b)[0]
    return exact


@homogeneous({"w": PREDICTOR, **_RATES}, by="w", w=PREDICTOR)
def l1_certificate(problem: Regression, w: ArrayLike | None = None) -> L1Certificate:
    """Is w the one fit of least weighted ℓ1 norm? For one data set, without probabilities.

    For a planted w it decides whether label noise recovers it, where Lemmas D.7 and D.8 speak of
    random data. The dual solution of the largest slack is found by further linear programs.

    Args:
        problem: with one output.
        w: (d,) a fit; without it the solution of `weighted_l1`.
    """
    goal = fits(problem)
    rates = decay_rates(problem)
    fit = weighted_l1(problem) if w is None else checks.array("w", w, shape=(problem.d,))
    on = np.abs(fit) > SUPPORT * np.max(np.abs(fit), initial=0.0)
    top = np.max(rates, initial=0.0) or 1.0
    dual, rate, theta_rate = _slacks(goal.V, rates / top, on, np.sign(fit))
    size = max(np.max(np.abs(goal.b), initial=0.0), np.max(np.abs(fit), initial=0.0))
    misfit = np.max(np.abs(goal.V.T @ fit - goal.b), initial=0.0) / size if size > 0 else 0.0
    kink = np.max(np.abs(dual - rates / top * np.sign(fit))[on], initial=0.0)
    residual = float(max(misfit, kink))
    optimal = bool(residual <= STRICT and rate >= -STRICT)
    independent = np.linalg.matrix_rank(goal.V[on]) == np.sum(on)
    unique = bool(optimal and rate > STRICT and independent and np.all(rates > 0))
    return L1Certificate(fit, top * dual, top * rate, top * theta_rate, residual, optimal, unique)


@homogeneous(CURVATURE)
def l1_rate(problem: Regression) -> float:
    """The g of ‖θ(t) − w‖ ~ e^{−c·g·t} along the limiting flow to w = `weighted_l1(problem)`.

    It is the `theta_rate` of `l1_certificate`. Often small, and seen only once every coordinate of
    w is larger than what still has to vanish: the end is approached slowly.
    """
    return l1_certificate(problem).theta_rate


def _slacks(
    V: np.ndarray, rates: np.ndarray, on: np.ndarray, signs: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """The dual solution of largest slack, that slack, and the rate of θ."""
    off = ~on & (rates > 0)
    dual, rate = _largest_slack(V, rates, on, signs * rates, off)
    pinned = np.zeros_like(off)
    theta_rate = rate
    # A slack cannot exceed s_j itself. Where that is what limits it, (Xᵀλ)_j = 0: u_j² and v_j²
    # decay together, their difference faster, and the others decide.
    while np.isfinite(theta_rate) and np.any(
        limiting := off & ~pinned & (rates <= theta_rate + STRICT)
    ):
        pinned |= limiting
        values = np.where(pinned, 0.0, signs * rates)
        theta_rate = _largest_slack(V, rates, on | pinned, values, off & ~pinned)[1]
    return dual, rate, max(rate, theta_rate)


def _largest_slack(
    V: np.ndarray, rates: np.ndarray, fixed: np.ndarray, values: np.ndarray, off: np.ndarray
) -> tuple[np.ndarray, float]:
    """Vλ and the largest g with Vλ = values where `fixed`, and |Vλ| ≤ rates − g where `off`."""
    if not off.any():
        return V @ np.linalg.lstsq(V[fixed], values[fixed])[0], np.inf
    column = np.ones((int(np.sum(off)), 1))
    found = scipy.optimize.linprog(
        np.append(np.zeros(V.shape[1]), -1.0),
        A_ub=np.block([[V[off], column], [-V[off], column]]),
        b_ub=np.tile(rates[off], 2),
        A_eq=np.hstack([V[fixed], np.zeros((int(np.sum(fixed)), 1))]),
        b_eq=values[fixed],
        bounds=(None, None),
        method="highs-ds",
        options=TOLERANCE,
    )
    if found.x is None:
        return np.zeros(len(rates)), -np.inf
    dual = V @ found.x[:-1]
    return dual, float(np.min((rates - np.abs(dual))[off]))
