"""Where printed formulas fail: numbers, from NumPy and the theory alone."""

import math
from typing import Any

import numpy as np
import scipy.special

from ...theory.imbalance import (
    balanced_two_layer,
    closed_state,
    closed_step,
    flow_time,
    lemma1_bounds,
    riccati_solution,
    singular_value_tail,
    split,
    width_bound,
)
from .._erratum import Evidence
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
    apart = [float(np.linalg.norm(x - best) / np.linalg.norm(best)) for x in (other, least)]
    return Evidence(apart[0] if same and fits else 0.0, apart[1])


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


def width_condition(key: int) -> Evidence:
    """The exponent of the bias over log C, at the least width, for a start that (19) allows.

    Its product U1Vᵀ is as large as (19) permits, in the direction of the largest σ and opposite
    to the labels.
    """
    lam_max, lam_min, labels = 40.0, 2.0, 1.0
    ratios = []
    for constant in ("paper", "corrected"):
        told = width_bound(1, 3, 2, 2, 0.5, 0.1, lam_max, lam_min, labels, constant)
        h = math.ceil(told.threshold) + 1
        product = lemma1_bounds(1, 3, 2, h, 0.5, 0.1, constant).product
        error = labels + math.sqrt(lam_max) * product
        ratios.append(math.sqrt(lam_max) / lam_min * error / told.log_C)
    return Evidence(*ratios)


def gradient_sign(key: int) -> Evidence:
    """−∂L/∂U as (28) prints it, and with the other sign, against differences of the loss."""
    problem, params = cases.regression(key, weight=0.5), cases.gaussian(key)
    W1, W2 = params["W1"], params["W2"]
    residual = problem.labels - problem.X @ W1 @ W2
    formula = problem.X.T @ residual @ W2.T
    slope = -_differences(lambda U: 0.5 * np.sum((problem.labels - problem.X @ U @ W2) ** 2), W1)
    apart = [np.linalg.norm(x - slope) / np.linalg.norm(slope) for x in (-formula, formula)]
    return Evidence(float(apart[0]), float(apart[1]))


def _differences(f: Any, at: np.ndarray) -> np.ndarray:
    """Central differences; exact up to rounding for a quadratic."""
    slope = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-2
        slope[index] = (f(at + step) - f(at - step)) / 2e-2
    return slope


def clock(key: int) -> Evidence:
    """The error after 2000 steps of descent, against the flow at t = lr·k·n/2 and at 2·lr·k/n."""
    problem, theta0 = cases.predictor(key, whitened=True)
    mean = problem.__class__(problem.X, problem.labels, 1 / cases.N)
    lr, steps = 1e-4, 2000
    params = balanced_two_layer(mean, theta0, cases.WIDTH)
    now = closed_state(mean, params)
    for _ in range(steps):
        now = closed_step(mean, now, lr)
    half = problem.__class__(problem.X, problem.labels, 0.5)
    clocks = (lr * steps * cases.N / 2, float(flow_time(mean, lr, steps).half_sum))
    parts = split(half)
    ends = riccati_solution(half, params, np.asarray(clocks)).UV
    errors = [parts.B - parts.sigma[:, None] * W for W in ends]
    apart = [float(np.linalg.norm(E - now.E) / np.linalg.norm(now.E)) for E in errors]
    return Evidence(*apart)
