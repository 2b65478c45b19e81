"""Where printed formulas fail: numbers, from NumPy and the theory alone."""

import math
from collections.abc import Callable

import numpy as np
import scipy.special

from ...theory.imbalance import (
    singular_value_tail,
    split,
)
from ..prelude import Evidence
from . import _instances as cases


def spectral_norm(key: int) -> Evidence:
    """How far from pinv(X)Y a minimiser of the spectral norm can be; of the Frobenius norm."""
    problem = cases.regression(key)
    best = np.asarray(problem.min_norm)
    _, s, Rt = np.linalg.svd(best, full_matrices=False)
    # Another interpolator: something unseen, along the weakest output only.
    size = 0.9 * math.sqrt(s[0] ** 2 - s[-1] ** 2)
    other = best + size * np.outer(split(problem).Phi2[:, 0], Rt[-1])
    same = np.linalg.norm(other, 2) <= s[0] * (1 + 1e-12)
    fits = float(problem.excess()(other)) < 1e-24
    least = np.linalg.lstsq(problem.X, problem.labels, rcond=1e-10)[0]
    far, near = (float(np.linalg.norm(x - best) / np.linalg.norm(best)) for x in (other, least))
    return Evidence(far if same and fits else 0.0, near)


def first_error(key: int) -> Evidence:
    """‖E(0)‖ over the two bounds on it, for data with singular values from 12 to 3."""
    rng = cases.draws(key, "theorems.imbalance first_error")
    sigma = np.array([12.0, 8.0, 5.0, 4.0, 3.0])
    B = 0.1 * rng.standard_normal((5, 2))
    product = 0.1 * rng.standard_normal((5, 2))
    error, labels, size = map(np.linalg.norm, (B - sigma[:, None] * product, B, product))
    return Evidence(
        float(error / (labels + size / sigma[-1])), float(error / (labels + sigma[0] * size))
    )


def tail(key: int) -> Evidence:
    """One number and t = 6: the probability of |g| > 8 over what the lemma allows."""
    exact = 2 * float(scipy.special.ndtr(-8.0))
    printed, corrected = (
        singular_value_tail(1, 1, 6.0, constant).failure for constant in ("paper", "corrected")
    )
    return Evidence(exact / printed, exact / corrected)


def gradient_sign(key: int) -> Evidence:
    """−∂L/∂U as (28) prints it, and with the other sign, against differences of the loss."""
    problem = cases.regression(key, weight=0.5)
    params = cases.gaussian(key)
    W1 = params["W1"]
    W2 = params["W2"]
    residual = problem.labels - problem.X @ W1 @ W2
    formula = problem.X.T @ residual @ W2.T
    slope = -_differences(lambda U: 0.5 * np.sum((problem.labels - problem.X @ U @ W2) ** 2), W1)
    size = np.linalg.norm(slope)
    return Evidence(*(float(np.linalg.norm(x - slope) / size) for x in (-formula, formula)))


def _differences(f: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Central differences; exact up to rounding for a quadratic."""
    slope = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-2
        slope[index] = (f(at + step) - f(at - step)) / 2e-2
    return slope
