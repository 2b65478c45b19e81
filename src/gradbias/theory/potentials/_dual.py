r"""Damped Newton for the dual of a Bregman projection.

The unknown ν moves the dual variable inside the row space, $z = z_0 + V\nu$, until the predictor
$\theta = (\nabla V)^{-1}(z)$ fits: $F(\nu) = V^T\theta - V^T\theta^* = 0$. F is the gradient of a
convex function, so a search along a line needs no values, whose differences would be rounding.
"""

import dataclasses
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.linalg

from ...numerics.linalg import norm

EPS = np.finfo(np.float64).eps
STEPS = 400
# steps without progress that end the search once the residual is small
NEAR = 1e-6
PATIENCE = 8
TRIALS = 200


@dataclasses.dataclass(frozen=True, eq=False)
class PotentialLimit:
    """Where a mirror flow ends.

    Attributes:
        theta: the predictor, in the shape of the problem's `min_norm`.
        residual: ‖P(θ − θ*)‖/‖Pθ*‖ inside the row space of the data, θ* any minimiser;
            ‖P(θ − θ*)‖ itself if Pθ* = 0.
        steps: of Newton's method.
    """

    theta: np.ndarray
    residual: float
    steps: int


@runtime_checkable
class Mirror(Protocol):
    """What the solver asks of a potential."""

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """The dual variable at θ."""
        ...

    def inverse_gradient(self, dual: np.ndarray) -> np.ndarray:
        """θ at a dual variable."""
        ...

    def inverse_jacobian(self, dual: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Its derivatives along directions (…, m)."""
        ...


class _Dual:
    """F and its Jacobian, with θ and z flattened."""

    def __init__(self, mirror: Mirror, dual: np.ndarray, basis: np.ndarray, target: np.ndarray):
        self.mirror = mirror
        self.shape = dual.shape
        self.z0 = dual.ravel()
        outputs = dual.size // len(dual)
        self.basis = np.kron(basis, np.eye(outputs)) if outputs > 1 else basis
        self.goal = self.basis.T @ target.ravel()
        self.scale = norm(self.goal) or 1.0

    def start(self, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From ν = 0 towards the dual variable of the target, where scales are right."""
        nu = np.zeros(self.basis.shape[1])
        error = self.error(nu)
        if not target.any():  # a potential may have a kink there
            return nu, error
        towards = self.basis.T @ (self.mirror.gradient(target).ravel() - self.z0)
        falls = np.isfinite(towards).all() and towards @ error < 0
        return _searched(self, nu, error, towards) if falls else (nu, error)

    def predictor(self, nu: np.ndarray) -> np.ndarray:
        return self.mirror.inverse_gradient((self.z0 + self.basis @ nu).reshape(self.shape))

    def error(self, nu: np.ndarray) -> np.ndarray:
        """F(ν); infinite where the mirror map overflows or refuses."""
        z = self.z0 + self.basis @ nu
        if not np.isfinite(z).all():
            return np.full(len(nu), np.inf)
        error = self.basis.T @ self.mirror.inverse_gradient(z.reshape(self.shape)).ravel()
        return error - self.goal

    def direction(self, nu: np.ndarray, error: np.ndarray) -> np.ndarray:
        """−J⁻¹F; J is symmetric, and where it is singular up to rounding F decides."""
        z = (self.z0 + self.basis @ nu).reshape(self.shape)
        m = len(nu)
        columns = self.mirror.inverse_jacobian(z, self.basis.reshape(*self.shape, m))
        J = self.basis.T @ columns.reshape(-1, m)
        values, vectors = scipy.linalg.eigh((J + J.T) / 2)
        floor = EPS * m * max(float(values[-1]), np.finfo(np.float64).tiny)
        return -vectors @ ((vectors.T @ error) / np.maximum(values, floor))


def solve(
    mirror: Mirror, dual: np.ndarray, basis: np.ndarray, target: np.ndarray
) -> PotentialLimit:
    """The predictor with `dual` plus something in the span of `basis` that fits there.

    Args:
        mirror: the potential.
        dual: (d,) or (d, k), where the dual variable starts.
        basis: (d, r) orthonormal.
        target: a predictor that fits, of the shape of `dual`.
    """
    problem = _Dual(mirror, dual, basis, target)
    with np.errstate(all="ignore"):
        nu, error = problem.start(target.reshape(dual.shape))
        best = nu
        least = norm(error)
        waited = 0
        steps = 0
        while steps < STEPS and least > EPS * problem.scale and waited <= PATIENCE:
            steps += 1
            before = nu
            nu, error = _searched(problem, nu, error, problem.direction(nu, error))
            if nu is before:
                break
            size = norm(error)
            waited = 0 if size < 0.9 * least or least > NEAR * problem.scale else waited + 1
            if size < least:
                best = nu
                least = size
        return PotentialLimit(problem.predictor(best), least / problem.scale, steps)


def _searched(
    problem: _Dual, nu: np.ndarray, error: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A full step if it does not overshoot, else about where the slope along the line is zero.

    The slope rises from negative to positive. Up to its zero the convex function falls; a little
    further is fine if the error itself falls.
    """
    slope = float(direction @ error)
    size = norm(error)
    low = 0.0
    high = np.inf
    length = 1.0
    for _ in range(TRIALS):
        trial = nu + length * direction
        moved = problem.error(trial)
        now = float(direction @ moved)
        close = abs(now) <= -slope / 2 and (now <= 0 or norm(moved) < size)
        if close or (now <= 0 and high == np.inf):
            return trial, moved
        low, high = (length, high) if now <= 0 else (low, length)
        length = (low + high) / 2 if low > 0 else high / 16  # from 1e40 it must be quick
    return nu, error
