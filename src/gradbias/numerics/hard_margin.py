"""The smallest w with Zw ≥ 1, in ℓ2, ℓ1 and ℓ∞; and whether there is one at all.

Linear programs go to HiGHS. ℓ2 is a least distance problem, which Lawson and Hanson (Solving Least
Squares Problems, chapter 23) turn into non-negative least squares: an active set, exact but for
rounding.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class NoDigits(ArithmeticError):
    """The margin is so small beside the samples that rounding decides what separates them."""


class HardMargin(NamedTuple):
    """A solution and its multipliers.

    Attributes:
        w: (d,), of least norm with Zw ≥ 1.
        alpha: (n,), not negative, with Σα = ‖w‖² and ‖Zᵀα‖_* = ‖w‖.
    """

    w: np.ndarray
    alpha: np.ndarray


class Separation(NamedTuple):
    """The largest smallest margin over |w_j| ≤ 1, and the weights that show it cannot be larger.

    Attributes:
        w: (d,), in the box.
        p: (n,), not negative, of sum one: ‖Zᵀp‖₁ is an upper bound on the margin in the box.
    """

    w: np.ndarray
    p: np.ndarray


def separation(Z: np.ndarray) -> Separation:
    """The best w in the box, by a linear program."""
    n, d = Z.shape
    cost = np.zeros(d + 1)
    cost[-1] = -1.0
    found = _program(
        cost, np.hstack([-Z, np.ones((n, 1))]), np.zeros(n), [(-1.0, 1.0)] * d + [(None, None)]
    )
    p = np.maximum(-found.ineqlin.marginals, 0.0)
    return Separation(found.x[:d], p / p.sum())


def least_l2(Z: np.ndarray) -> HardMargin:
    """In ℓ2; Z must be separable, with a largest entry of order one."""
    Q, R = np.linalg.qr(Z.T)  # no more coordinates than samples
    rows = R.T
    scale = float(np.linalg.norm(rows, axis=1).max())
    found = None
    for _ in range(2):  # the second time in units of the margin, which keeps all digits
        found = _least_distance(rows / scale)
        scale *= float(1 / np.linalg.norm(found.w))
    assert found is not None
    scale *= float(np.linalg.norm(found.w))
    found = _polished(rows / scale, found)
    return HardMargin(Q @ found.w / scale, found.alpha / scale**2)


def least_l1(Z: np.ndarray) -> HardMargin:
    """In ℓ1."""
    n, d = Z.shape
    scale = float(np.abs(Z).max())
    rows = Z / scale
    found = _program(np.ones(2 * d), np.hstack([-rows, rows]), -np.ones(n), [(0, None)] * 2 * d)
    return _of_program(found.x[:d] - found.x[d:], -found.ineqlin.marginals, scale)


def least_linf(Z: np.ndarray) -> HardMargin:
    """In ℓ∞."""
    n, d = Z.shape
    scale = float(np.abs(Z).sum(axis=1).max())
    rows = Z / scale
    cost = np.zeros(d + 1)
    cost[-1] = 1.0
    box = np.hstack([np.vstack([np.eye(d), -np.eye(d)]), -np.ones((2 * d, 1))])
    inequalities = np.vstack([np.hstack([-rows, np.zeros((n, 1))]), box])
    bounds = np.concatenate([-np.ones(n), np.zeros(2 * d)])
    found = _program(cost, inequalities, bounds, [(None, None)] * (d + 1))
    return _of_program(found.x[:d], -found.ineqlin.marginals[:n], scale)


def _of_program(w: np.ndarray, multipliers: np.ndarray, scale: float) -> HardMargin:
    """A solution in the units of the data; the multipliers of a norm, made those of its square."""
    multipliers = np.maximum(multipliers, 0.0)
    return HardMargin(w / scale, multipliers * (multipliers.sum() / scale**2))


def _program(
    cost: np.ndarray, matrix: np.ndarray, upper: np.ndarray, bounds: list[Any]
) -> "OptimizeResult":
    from scipy.optimize import linprog  # slow to import, and needed only here

    found = linprog(cost, matrix, upper, bounds=bounds, method="highs", options=TIGHT)
    if not found.success:
        raise ArithmeticError(f"the linear program of a margin has no solution: {found.message}")
    return found


def _least_distance(Z: np.ndarray) -> HardMargin:
    from scipy.optimize import nnls

    n, d = Z.shape
    E = np.vstack([Z.T, np.ones((1, n))])
    f = np.zeros(d + 1)
    f[-1] = 1.0
    u, _ = nnls(E, f, maxiter=30 * max(n, d))
    r = E @ u - f
    if not -r[d] > 0:  # the square of the margin, less than rounding of one
        raise NoDigits("the least distance is zero up to rounding")
    return HardMargin(-r[:d] / r[d], u / -r[d])


def _polished(Z: np.ndarray, found: HardMargin) -> HardMargin:
    """The same, solved once more on its support, if that is better."""
    support = found.alpha > 0
    rows = Z[support]
    w = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
    alpha = np.zeros(len(Z))
    alpha[support] = np.linalg.lstsq(rows.T, w, rcond=None)[0]
    again = HardMargin(w, alpha)
    better = alpha.min() >= 0 and _violation(Z, again) < _violation(Z, found)
    return again if better else found


def _violation(Z: np.ndarray, found: HardMargin) -> float:
    margins = Z @ found.w
    own = np.abs(found.w - Z.T @ found.alpha).max()
    slack = np.abs(found.alpha * (margins - 1)).max() / found.alpha.sum()
    return max(1 - float(margins.min()), float(own), float(slack))
