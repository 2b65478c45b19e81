r"""The scalar equation behind every balanced limit, in logarithms.

$$\sigma^{2m}\,p = e^T,\qquad p = \sigma^2 + e,$$

where $\sigma$ is the norm of a hidden layer over its start, $m = N - 1$, and $p$ the square of what
the first layer has inside the row space. The left-hand side increases from 0, so there is one root.
The unknown $z = \log\sigma^{2m}$ stays of order one when m goes to infinity and σ to one.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

EPS = np.finfo(np.float64).eps
ITERATIONS = 1000  # ten are usual; a hundred when the depth is a million


class Root(NamedTuple):
    """z = log σ^{2m}, and the relative error |σ^{2m}p/e^T − 1| of the equation."""

    z: float
    residual: float


def growth(m: float, b: float, e: float, T: float) -> Root:
    """The root of σ^{2m}(σ² + e) = e^T.

    Args:
        m: at least 0; may be infinite.
        b: 1 + e, given apart because one of the two is small when digits matter.
        e: any number.
        T: the logarithm of the right-hand side; −inf for zero.
    """
    if m == 0:
        return Root(0.0, 0.0)
    if math.isinf(T):
        return Root(m * _log_minus(b, e) if e < 0 else -math.inf, 0.0)
    if math.isinf(m):
        return Root(T - math.log(b) if b > 0 else math.inf, 0.0)
    if e >= 0:
        return _from_sum(m, b, e, T)
    if b > 0 and _small(math.log(b / 2), m, _log_minus(b, e))[0] < T:
        return _from_difference(m, b, T)
    return _from_small(m, b, e, T)


def _from_sum(m: float, b: float, e: float, T: float) -> Root:
    """With e ≥ 0, p = σ² + e is a sum; convex in z."""
    log_e = math.log(e) if e > 0 else -math.inf

    def equation(z: float) -> tuple[float, float]:
        log_p = float(np.logaddexp(z / m, log_e))
        return z + log_p, 1 + math.exp(z / m - log_p) / m

    z, residual = newton(equation, max(T - math.log(b), 0.0), T)
    return Root(z, residual)


def _from_difference(m: float, b: float, T: float) -> Root:
    """With 0 < b < 1 and p > b/2, p = (σ² − 1) + b; concave in z."""

    def equation(z: float) -> tuple[float, float]:
        p = math.expm1(z / m) + b
        return z + math.log(p), 1 + math.exp(z / m) / (m * p)

    left = max(b / 2, min(1 / m, math.exp(min(T - 1, 0.0))))
    z, residual = newton(equation, m * math.log1p(left - b), T)
    return Root(z, residual)


def _from_small(m: float, b: float, e: float, T: float) -> Root:
    """With e < 0 and p ≤ b/2, or b ≤ 0, σ² = p + |e| is a sum; convex in log p."""
    log_minus = _log_minus(b, e)

    def equation(log_p: float) -> tuple[float, float]:
        value, slope, _ = _small(log_p, m, log_minus)
        return value, slope

    log_p, residual = newton(equation, math.log(b / 2) if b > 0 else T, T)
    return Root(_small(log_p, m, log_minus)[2], residual)


def _small(log_p: float, m: float, log_minus: float) -> tuple[float, float, float]:
    log_square = float(np.logaddexp(log_p, log_minus))
    z = m * log_square
    return z + log_p, 1 + m * math.exp(log_p - log_square), z


def _log_minus(b: float, e: float) -> float:
    return math.log1p(-b) if b < 0.5 else math.log(-e)


def newton(
    equation: Callable[[float], tuple[float, float]], x: float, T: float
) -> tuple[float, float]:
    """Newton's method from the side where it cannot overshoot; stops where only rounding moves."""
    last = 0.0
    for _ in range(ITERATIONS):
        value, slope = equation(x)
        step = (T - value) / slope
        turned = step * last < 0 and abs(step) > abs(last) / 2
        if turned or abs(step) <= EPS * abs(x):
            break
        x = x + step
        last = step
    return x, abs(math.expm1(equation(x)[0] - T))
