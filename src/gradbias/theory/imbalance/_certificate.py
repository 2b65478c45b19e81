"""Rates that are guaranteed, from more than the imbalance: the product and the kernel as well.

The error ‖E‖_F shrinks at least at the rate k*(e) = max(kA, kB(e), kC(e)) while it is e, so it
stays below the solution of e' = −k*(e)e. All rates are in the problem's own time.
A `Certificate` works them out in units of order one, by its `Rates`, and scales them back.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import norm
from .._problem import LeastSquares, Params
from .._units import LABEL, LOSS, NONE, PARAMETER, RATE, TIME, Degree, Units, homogeneous
from ._closed_system import kernel_ends
from ._coordinates import Split, learning, log, times
from ._imbalance import Extremes, extremes
from ._rates import imbalance_rate

CELLS = 16384  # of the envelope: a rate that doubles lifts it by 0.3 % above the integral
DEPTH = 46.0  # e-foldings that they span; below 1e-20 of the start all rates are constant


@dataclass(frozen=True, eq=False)
class Numbers:
    """What is known at the parameters, in one unit or another."""

    c: float
    kA: float
    k0: float
    k_max: float
    e0: float


@dataclass(frozen=True, eq=False)
class Certificate(Numbers):
    """What can be guaranteed about gradient flow from the parameters it was made for.

    Attributes:
        c: the imbalance level.
        kA: the rate of Theorem 1, from the imbalance alone; no better one follows from that.
        k0: the exact least rate at these parameters (`rate_floor`).
        k_max: the exact largest one (`rate_ceiling`).
        e0: the error ‖E‖_F at these parameters.
        problem: what is fitted.
    """

    problem: LeastSquares
    _rates: "Rates"
    _units: Units

    def in_units(self, units: Units) -> "Certificate":
        """The same, of a problem that was measured in these units."""
        rates = {name: units.back(getattr(self, name), RATE) for name in ("kA", "k0", "k_max")}
        c = units.back(self.c, 2 * PARAMETER)
        e0 = units.back(self.e0, LABEL)
        return replace(self, c=c, e0=e0, _units=units, **rates)

    def kB(self, e: ArrayLike) -> np.ndarray:
        """The rate from imbalance and product, whenever ‖E‖_F ≤ e; grows as e shrinks.

        The product U1Vᵀ is within e of one whose singular values are known, and no layer can be
        small while the product is large. At least kA. Valid for balanced nets too, but there
        only once the error is below the least singular value of B: they can end at a saddle.
        """
        return self._told(self._rates.kB(self._given(_errors(e), LABEL)), RATE)

    def kC(self, e: ArrayLike) -> np.ndarray:
        """The rate that is left of k0 when the error has shrunk to e: the kernel moves slowly.

        Zero once that guarantees nothing; the strongest of all for wide or large nets.
        """
        return self._told(self._rates.kC(self._given(_errors(e), LABEL)), RATE)

    def rate(self, e: ArrayLike) -> np.ndarray:
        """The best of the three at error e."""
        return self._told(self._rates.rate(self._given(_errors(e), LABEL)), RATE)

    def envelope(self, t: ArrayLike) -> np.ndarray:
        """A bound on the loss above its minimum at times t after these parameters.

        Times are t(e) = ∫ de/(k*(e)e), summed over cells in each of which the least rate that
        is possible counts: it is a bound, not an approximation of one.
        """
        return self._told(self._rates.envelope(self._given(times(t), TIME)), LOSS)

    @property
    def asymptotic_rate(self) -> float:
        """The rate of ‖E‖ that the envelope ends with; 0 if it comes to a halt above zero."""
        return self._told(self._rates.asymptotic_rate, RATE)

    @property
    def ceiling(self) -> float:
        """A bound on the largest eigenvalue of the kernel (`rate_ceiling`) at all later times.

        The kernel moves at 4σ_1²e(‖B‖ + e) at most, and e falls at k*(e) at least. Infinite when
        the envelope comes to a halt: small nets, whose kernel has all its growth before it.
        """
        return self._told(self._rates.ceiling, RATE)

    def restart(self, params: Params) -> "Certificate":
        """The certificate from a later state of a run; its times count from there.

        As the state approaches the end of the run, its rate tends to the true one.

        Args:
            params: W1 (D, h) and W2 (h, m) at that time.
        """
        return certificate(self.problem, params)

    def _given(self, value: np.ndarray, degree: Degree) -> np.ndarray:
        return self._units.measured(value, degree)

    def _told(self, value: Any, degree: Degree) -> Any:
        return self._units.back(value, degree)


def certificate(problem: LeastSquares, params: Params) -> Certificate:
    """Everything that is guaranteed about the speed of gradient flow from these parameters.

    Args:
        problem: Regression or Population; answers are for its own weight and time.
        params: W1 (D, h) and W2 (h, m).
    """
    told = replace(_certificate(problem, params), problem=problem)
    if not np.isfinite([told.k_max, told.e0]).all():
        raise ValueError(
            "problem and params must have rates and errors within the range of float64, got "
            f"{told.k_max:.3g} and {told.e0:.3g}: another weight is another unit of time"
        )
    return told


@homogeneous(NONE)  # it scales by itself
def _certificate(problem: LeastSquares, params: Params) -> Certificate:
    seen = learning(problem, params)
    speed = seen.split.speed
    ends = extremes(seen)
    low, high = kernel_ends(seen)
    now = (ends.lam_r + ends.nu_m, imbalance_rate(seen), speed * low, speed * high, norm(seen.E))
    return Certificate(*now, problem, Rates(*now, ends, seen.split), Units(0, 0, 0, 0))


@dataclass(frozen=True, eq=False)
class Rates(Numbers):
    """A certificate in units in which nothing over- or underflows."""

    ends: Extremes
    split: Split

    def kB(self, e: np.ndarray) -> np.ndarray:
        """From imbalance and product."""
        lam_1, lam_r, nu_1, nu_m = self.ends
        narrow, wide = self._products(e)
        both = least_gram(nu_m, lam_1, narrow) + least_gram(lam_r, nu_1, wide)
        with np.errstate(over="ignore"):
            return np.asarray(self.split.speed * (self.split.S[-1] * both))

    def kC(self, e: np.ndarray) -> np.ndarray:
        """What is left of k0."""
        e = np.minimum(e, self.e0)
        if self.k0 == 0:
            return np.zeros_like(e)
        labels = float(np.linalg.norm(self.split.B, 2))
        with np.errstate(over="ignore"):  # then nothing is left
            unit = self.split.speed * self.split.sigma[0] / self.k0
            spent = unit * (self.e0 - e) * (unit * (labels + (self.e0 + e) / 2))
            return np.asarray(self.k0 * np.sqrt(np.maximum(1 - 8 * spent, 0.0)))

    def rate(self, e: np.ndarray) -> np.ndarray:
        """The best of the three."""
        return np.asarray(np.maximum(self.kA, np.maximum(self.kB(e), self.kC(e))))

    def envelope(self, t: np.ndarray) -> np.ndarray:
        """A bound on the loss, by the cell in which each time lies."""
        log_e, rates, starts = self._cells
        cell = np.searchsorted(starts, t, side="right") - 1
        with np.errstate(over="ignore"):
            fallen = rates[cell] * (t - starts[cell])
            return np.asarray(np.exp(log(self.split.weight) + 2 * (log_e[cell] - fallen)))

    @property
    def asymptotic_rate(self) -> float:
        """That of the last cell."""
        return float(self._cells[1][-1])

    @property
    def ceiling(self) -> float:
        """A bound on the kernel: what it moves by in each cell is added."""
        if self.e0 == 0:
            return self.k_max
        log_e, rates, _ = self._cells
        e = np.append(np.minimum(np.exp(log_e), self.e0), 0.0)
        labels = float(np.linalg.norm(self.split.B, 2))
        with np.errstate(divide="ignore", over="ignore"):
            unit = 2 * self.split.speed * self.split.sigma[0]
            moved = unit * (e[:-1] - e[1:]) / rates * (unit * (labels + e[:-1]))
            return float(self.k_max + np.sum(moved))

    def _products(self, e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lower bounds on the m-th and the r-th singular value of U1Vᵀ when ‖E‖_F ≤ e."""
        sigma = self.split.sigma
        B = self.split.B
        r, m = B.shape
        of_labels = np.linalg.svd(B, compute_uv=False)[-1]
        of_solution = np.linalg.svd(B / sigma[:, None], compute_uv=False)[-1]
        both = np.maximum((of_labels - e) / sigma[0], of_solution - e / sigma[-1])
        both = np.maximum(both, 0.0)
        none = np.zeros_like(both)
        return np.asarray(both if m <= r else none), np.asarray(both if r <= m else none)

    @functools.cached_property
    def _cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each cell: log e where it starts, the rate in it, the time when it is entered.

        kB grows and kC falls as e shrinks, so the worst case is kB where the cell starts and kC
        where it ends. The last cell has no end; nor has one in which nothing is guaranteed.
        """
        if self.e0 == 0:
            return np.array([-np.inf]), np.array([self.kA]), np.zeros(1)
        log_e = np.log(self.e0) - np.linspace(0.0, DEPTH, CELLS)
        e = np.minimum(np.exp(log_e), self.e0)
        rates = np.maximum(self.kA, np.maximum(self.kB(e), self.kC(np.append(e[1:], 0.0))))
        stuck = np.flatnonzero(rates == 0)
        last = stuck[0] if len(stuck) else CELLS - 1
        with np.errstate(over="ignore"):
            starts = np.append(0.0, np.cumsum(DEPTH / (CELLS - 1) / rates[:last]))
        return log_e[: last + 1], rates[: last + 1], starts


def least_gram(own: ArrayLike, other: ArrayLike, product: ArrayLike) -> np.ndarray:
    """The positive root q of (q − own)(q + other) = product².

    A lower bound on λ_m(VVᵀ) for own = ν_m, other = λ_1 and the m-th singular value of U1Vᵀ;
    and on λ_r(U1U1ᵀ) for own = λ_r, other = ν_1 and the r-th. The pairing matters.
    """
    own, other, product = np.broadcast_arrays(own, other, product)
    scale = np.maximum(np.maximum(own, other), product)
    scale = np.where(scale > 0, scale, 1.0)
    a = own / scale
    b = other / scale
    s = product / scale
    root = np.hypot(a + b, 2 * s)
    gap = a - b
    # written without a difference of nearly equal numbers, whichever is larger
    below = 2 * (a * b + s * s) / np.where(gap < 0, root - gap, 1.0)
    return np.asarray(scale * np.where(gap < 0, below, (gap + root) / 2))


def _errors(e: ArrayLike) -> np.ndarray:
    result = checks.array("e", e)
    if (result < 0).any():
        raise ValueError(f"e must not be negative (it is a norm), got {result.min()}")
    return result
