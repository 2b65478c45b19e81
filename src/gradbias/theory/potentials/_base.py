"""Potentials: the convex functions whose Bregman divergence gradient flow minimises."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from .._problem import LeastSquares, least_squares
from ._dual import PotentialLimit, solve

STEP = 1e-5  # relative, of central differences: their error 1e-10 costs Newton nothing


class Potential:
    r"""A strictly convex V of the predictor, with $\nabla V$ and its inverse, the mirror map.

    If $\nabla V(\theta)$ moves inside the row space of the data only, a flow that reaches a minimum
    of the loss ends at the one with the least Bregman divergence from its start: `limit`. Make an
    own one from functions, or subclass and define the methods of the same names:

        V = Potential(
            value=lambda theta: np.sum(theta**4) / 4,
            gradient=lambda theta: theta**3,
            inverse_gradient=np.cbrt,
        )
        V.limit(problem, theta0).theta

    Args:
        value: V(θ), a number.
        gradient: ∇V(θ), of the shape of θ.
        inverse_gradient: z ↦ θ with ∇V(θ) = z.
        inverse_jacobian: `f(z, directions)`: the derivatives of `inverse_gradient` at z along
            directions (…, m), of the same shape; without it by central differences.
    """

    def __init__(
        self,
        value: Callable[[np.ndarray], ArrayLike],
        gradient: Callable[[np.ndarray], ArrayLike],
        inverse_gradient: Callable[[np.ndarray], ArrayLike],
        inverse_jacobian: Callable[[np.ndarray, np.ndarray], ArrayLike] | None = None,
    ):
        for name, function in (
            ("value", value),
            ("gradient", gradient),
            ("inverse_gradient", inverse_gradient),
            ("inverse_jacobian", inverse_jacobian or np.asarray),
        ):
            if not callable(function):
                raise ValueError(f"{name} must be a function, got {function!r:.80}")
        self._value = value
        self._gradient = gradient
        self._inverse_gradient = inverse_gradient
        self._inverse_jacobian = inverse_jacobian

    def value(self, theta: ArrayLike) -> float:
        """V(θ)."""
        return float(np.asarray(self._value(checks.array("theta", theta)), np.float64))

    def gradient(self, theta: ArrayLike) -> np.ndarray:
        """∇V(θ), the dual variable."""
        return np.asarray(self._gradient(checks.array("theta", theta)), np.float64)

    def inverse_gradient(self, dual: ArrayLike) -> np.ndarray:
        """θ with ∇V(θ) = `dual`."""
        return np.asarray(self._inverse_gradient(checks.array("dual", dual)), np.float64)

    def inverse_jacobian(self, dual: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """The derivatives of `inverse_gradient` at `dual` along directions (…, m)."""
        if self._inverse_jacobian is not None:
            return np.asarray(self._inverse_jacobian(dual, directions), np.float64)
        # Relative to the dual variable itself: a step of fixed length would have a unit.
        step = STEP * (float(np.max(np.abs(dual), initial=0.0)) or 1e-3)
        columns = np.moveaxis(directions, -1, 0)
        ahead, back = (
            [self.inverse_gradient(dual + sign * step * column) for column in columns]
            for sign in (1, -1)
        )
        return np.moveaxis(np.subtract(ahead, back) / (2 * step), 0, -1)

    def bregman(self, a: ArrayLike, b: ArrayLike) -> float:
        """V(a) − V(b) − ⟨∇V(b), a − b⟩: how far `a` is from `b`, not symmetric."""
        a = checks.array("a", a)
        b = checks.array("b", b)
        if a.shape != b.shape:
            raise ValueError(f"a and b must have one shape, got {a.shape} and {b.shape}")
        return self.value(a) - self.value(b) - float(np.sum(self.gradient(b) * (a - b)))

    def limit(self, problem: LeastSquares, theta0: ArrayLike | None = None) -> PotentialLimit:
        """The minimiser of the loss with the least divergence from `theta0`.

        Damped Newton for the dual: as many unknowns as the data have rank, times outputs. See
        the residual of the answer: it is not small if the potential cannot reach a minimum.

        Args:
            problem: Regression or Population. With one output the potential is given vectors
                (d,), otherwise matrices (d, k).
            theta0: where the flow starts; None for the least point of the potential.
        """
        least_squares(problem)
        shape = (problem.d,) if problem.k == 1 else (problem.d, problem.k)
        if theta0 is None:
            dual = np.zeros(shape)
        else:
            dual = self.gradient(problem.as_predictor(theta0).reshape(shape))
        found = solve(self, dual, problem.row_space, np.reshape(problem.min_norm, shape))
        theta = problem.at_edge(found.theta.reshape(problem.d, problem.k))
        return PotentialLimit(theta, found.residual, found.steps)
