"""Coordinates of the dual in which small numbers stay accurate."""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ._fits import EPS, Fits
from ._log_point import Point

LAPACK: Any = scipy.linalg.lapack

GRADED = np.log(1e-8)  # the r-th largest u² + v² over the largest, below which H is singular
RANGE = 600.0  # of logarithms, between the largest and the smallest float
ZERO = 8 * EPS  # an entry of an orthonormal basis up to this is rounding
SNAP = 16.0  # times its noise: a component of b up to this is rounding of the labels
REACH = 100.0  # how far below b, in logarithms, a row may be and still be compared with it


class Frame(NamedTuple):
    """The dual's gradient Cθ − b and Hessian C diag(u² + v²) Cᵀ, each row in units of its own.

    Attributes:
        C: (r, d), Vᵀ in some orthonormal basis of the unknowns.
        size: its absolute values.
        b: (r,) in that basis and in the rows' units.
        level: the logarithms of the rows' units, (r, 1), or one for all.
        floor: (r,) a gradient up to this is zero.
    """

    C: np.ndarray
    size: np.ndarray
    b: np.ndarray
    level: np.ndarray
    floor: np.ndarray

    def gradient(self, at: Point) -> np.ndarray:
        """The gradient in the unknowns, zero where it is rounding."""
        size = self._units(at.log_theta)
        gradient = self._sum(self.C, np.copysign(size, at.x)) - self.b
        terms = self._sum(self.size, size * at.digits_lost) + 4 * np.abs(self.b)
        # An overflow is not below an infinite bound: it stays.
        return np.where(np.abs(gradient) < EPS * terms + self.floor, 0.0, gradient)

    def newton(self, at: Point, gradient: np.ndarray) -> np.ndarray:
        """−H⁻¹·gradient."""
        if self.level.ndim:  # each row in units of its own: not symmetric
            H = (self.C * self._units(at.log_mass)) @ self.C.T
            H.flat[:: len(H) + 1] += EPS * len(H)
            return -np.linalg.solve(H, gradient)
        root = self.C * np.exp((at.log_mass - self.level) / 2)
        H = root @ root.T
        H.flat[:: len(H) + 1] += EPS * len(H)
        _, direction, failed = LAPACK.dposv(H, gradient)
        return -np.linalg.solve(H, gradient) if failed else -direction

    def tangent(self, at: Point, by: np.ndarray) -> np.ndarray:
        """How the unknowns follow when the coordinates sink: Hα' = C(θ∘by)."""
        theta = np.copysign(self._units(at.log_theta), at.x)
        return self.newton(at, -self._sum(self.C, theta * by))

    def _units(self, logarithms: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(logarithms - self.level, RANGE))

    @staticmethod
    def _sum(C: np.ndarray, terms: np.ndarray) -> np.ndarray:
        return C @ terms if terms.ndim == 1 else np.einsum("ij,ij->i", C, terms)


def frame(goal: Fits, at: Point) -> Frame:
    """The data's own basis, or one that is graded as the coordinates are."""
    mass = at.log_mass
    r = len(goal.b)
    top = np.max(mass)
    if np.partition(mass, -r)[-r] - top > GRADED:
        level = np.asarray(top if top > goal.largest - REACH else goal.largest - REACH)
        return _frame(goal.V.T, goal.size, goal.b, level, at)
    C, b = _graded(goal, mass - top)
    with np.errstate(divide="ignore"):
        touched = np.max(mass + 2 * np.log(np.abs(C)), axis=1)
        level = np.maximum(touched, np.log(np.abs(b)) - REACH)[:, None]
    return _frame(C, np.abs(C), b, np.where(np.isfinite(level), level, 0.0), at)


def _graded(goal: Fits, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C and b in a basis whose directions move ever smaller coordinates.

    After a long time a few coordinates are of the size of the labels and the others tiny. The
    directions that move only tiny ones need rows of their own: rounding of the large ones, 1e-16,
    would be more than all there is in them. Pivoted QR finds them; its triangle says which
    coordinates a direction does not touch. What b has there is rounding of the labels, as long
    as the large coordinates suffice to fit them, and is taken as zero.
    """
    lowest = -np.min(mass, where=np.isfinite(mass), initial=0.0)
    weights = np.exp(mass / 2 * min(1.0, RANGE / max(lowest, 1.0)))  # squeezed, in the same order
    columns = (goal.V * weights[:, None]).T
    factors: Any = scipy.linalg.qr(columns, mode="economic", pivoting=True, check_finite=False)
    W, _, order = factors
    C = np.empty_like(columns)
    C[:, order] = np.triu(W.T @ goal.V.T[:, order])
    b = W.T @ goal.b
    known = np.sqrt(np.square(W.T) @ np.square(goal.noise))
    return np.where(np.abs(C) > ZERO, C, 0.0), np.where(np.abs(b) > SNAP * known, b, 0.0)


def _frame(C: np.ndarray, size: np.ndarray, b: np.ndarray, level: np.ndarray, at: Point) -> Frame:
    unit = np.exp(np.minimum(-level, RANGE)).reshape(-1)
    # A coordinate that has only one sign may have to vanish; it need not do so to 300 digits.
    floor = EPS * unit if at.one_signed else np.zeros(1)
    return Frame(C, size, b * unit, level, floor)
