"""Sums of weighted chi-squares: the exact distribution, by one integral in the complex plane.

The Laplace transform of Σ w_j χ²_n is Π(1 + 2w_j s)^(−n/2), whose singularities are negative. Its
inversion integral runs through the saddle point of the whole integrand, where terms of one size
add up, so that small probabilities keep all their digits at both ends.
"""

import math
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.host_rng import generator

NODES_PER_WIDTH = 12  # twice as many change nothing above 1e-14
NODES = 400
DOUBLINGS = 60
_FAR = 1e3  # a logarithm of what underflowed


class ChiSquareMixture:
    """The law of Σ_j weights[j]·χ²_j, independent chi-squares of the same degrees of freedom.

    Args:
        weights: not negative.
        dof: degrees of freedom of each term; with 0 the sum is zero.
    """

    def __init__(self, weights: ArrayLike, dof: int):
        self.weights = checks.array("weights", weights, ndim=(1,))
        self.dof = checks.integer("dof", dof)
        if (self.weights < 0).any():
            raise ValueError(f"weights must not be negative, got {self.weights.min()}")
        largest = self.weights.max(initial=0.0) if self.dof else 0.0
        self._unit = float(largest)
        self._relative = self.weights[self.weights > 0] / largest if largest else np.zeros(0)

    @property
    def mean(self) -> float:
        """dof·Σw."""
        return float(self.dof * self.weights.sum())

    @property
    def variance(self) -> float:
        """2·dof·Σw²."""
        with np.errstate(over="ignore"):
            return float(2 * self.dof * np.sum(self.weights**2))

    def cdf(self, x: ArrayLike) -> np.ndarray:
        """P(sum ≤ x)."""
        return self._both(x)[0]

    def sf(self, x: ArrayLike) -> np.ndarray:
        """P(sum > x), with all its digits where it is small."""
        return self._both(x)[1]

    def quantile(self, p: ArrayLike) -> np.ndarray:
        """The x below which the sum is with probability p, 0 ≤ p < 1."""
        given = checks.array("p", p)
        if not ((given >= 0) & (given < 1)).all():
            raise ValueError(f"p must be at least 0 and less than 1, got {given.ravel()[:5]}")
        values = [self._quantile(float(one)) for one in given.ravel()]
        return np.reshape(np.array(values), given.shape)

    def sample(self, size: int, key: int = 0) -> np.ndarray:
        """Independent draws, (size,).

        Args:
            size: how many.
            key: an integer; the same key gives the same draws.
        """
        size = checks.integer("size", size)
        if self._unit == 0:
            return np.zeros(size)
        rng = generator(key, "ChiSquareMixture.sample")
        return rng.chisquare(self.dof, (size, len(self.weights))) @ self.weights

    def _both(self, x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        given = checks.array("x", x)
        pairs = [self._tails(float(one)) for one in given.ravel()]
        low, high = np.array(pairs).reshape(-1, 2).T
        return low.reshape(given.shape), high.reshape(given.shape)

    def _tails(self, x: float) -> tuple[float, float]:
        """The probabilities below and above x; the smaller one is integrated."""
        if x <= 0 or self._unit == 0:
            return (1.0, 0.0) if x >= 0 and self._unit == 0 else (0.0, 1.0)
        x = x / self._unit
        mean = self.dof * float(self._relative.sum())
        if x < 1e-300:  # at most 1e-150
            return 0.0, 1.0
        if x < mean:
            low = tail(self._relative / x, self.dof, lower=True)
            return low, 1 - low
        if x > 1e4 + 100 * mean:  # at most e^(0.35·mean − x/4)
            return 1.0, 0.0
        high = tail(self._relative / x, self.dof, lower=False)
        return 1 - high, high

    def _quantile(self, p: float) -> float:
        if p == 0 or self._unit == 0:
            return 0.0

        def off(log_x: float) -> float:
            low, high = self._tails(self._unit * math.exp(log_x))
            if p < 0.5:
                return math.log(low / p) if low > 0 else -_FAR
            return math.log((1 - p) / high) if high > 0 else _FAR

        middle = math.log(self.dof * self._relative.sum())
        left = middle - 1.0
        right = middle + 1.0
        # The probability falls by powers of x at the left end and faster at the right one: a few
        # steps are enough, and beyond these the answer is no float64.
        for _ in range(DOUBLINGS):
            if not off(left) > 0:
                break
            left -= 2 * (middle - left)
        for _ in range(DOUBLINGS):
            if not off(right) < 0:
                break
            right += 0.5 * (right - middle)
        if not off(left) <= 0 <= off(right):
            raise ValueError(f"p must have a quantile within the range of float64, got {p:.17g}")
        root: Any = scipy.optimize.brentq(off, left, right, xtol=1e-14)
        return self._unit * math.exp(root)


def tail(weights: np.ndarray, dof: int, *, lower: bool) -> float:
    """P(Σ w χ² < 1) if lower, else P(> 1): (1/2πi)∫ e^ψ ds on a parabola through the saddle."""
    start = _saddle(weights, dof, lower)
    a = 2 * weights / (1 + 2 * weights * start)
    second = 0.5 * dof * np.sum(a**2) + 1 / start**2
    bend = -dof * np.sum(a**3) / (6 * second)  # into the left half plane, where eˢ dies
    y = np.arange(NODES) / (NODES_PER_WIDTH * math.sqrt(second))
    s = start + 1j * y + bend * y * y
    psi = s - 0.5 * dof * np.log1p(2 * weights * s[:, None]).sum(axis=1)
    psi = psi - np.log(s if lower else -s)
    terms = np.exp(psi - psi[0].real) * (1 - 2j * bend * y)
    terms[0] /= 2
    integral = terms.real.sum() * (y[1] - y[0]) / math.pi
    return float(min(math.exp(psi[0].real) * integral, 1.0))


def _saddle(weights: np.ndarray, dof: int, lower: bool) -> float:
    """The real minimum of ψ(s) = s − (n/2) Σ log(1 + 2ws) − log|s|, on the side of the tail."""

    def slope(s: float) -> float:
        return 1 - dof * float(np.sum(weights / (1 + 2 * weights * s))) - 1 / s

    # Right of the pole: where ψ' = 0, each logarithm takes at most its own share of 1/s. Left of
    # it: between the pole and the first singularity of the transform.
    ends = (1e-3, 1.001 + 0.501 * dof * len(weights))
    if not lower:
        ends = (-0.5 / weights.max() * (1 - 1e-12), -0.1)
    root: Any = scipy.optimize.brentq(slope, *ends)
    return float(root)
