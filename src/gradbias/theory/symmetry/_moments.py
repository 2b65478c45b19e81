"""Moments of residuals and inputs under a squared loss: what gradient noise is made of."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ...problems import Problem


class Moments(NamedTuple):
    """Of y = Vx + error at a predictor V (k, d), in column form: r = Vx − y.

    Attributes:
        scale: the factor of ‖r‖² in the loss of one sample: 1 for losses without ½.
        sigma_x: (d, d) E[xxᵀ].
        G: (k, d) E[r xᵀ].
        data: (X, R) of finite data, rows are samples.
        error: (E, sigma_x, sigma_eps) of Gaussian data, r = Ex − ε.
    """

    scale: float
    sigma_x: np.ndarray
    G: np.ndarray
    data: tuple[np.ndarray, np.ndarray] | None = None
    error: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def inputs(self, M: np.ndarray, centred: bool = True) -> np.ndarray:
        """E[(rᵀMr) xxᵀ], (d, d), less GᵀMG if centred; M is symmetric."""
        if self.data is not None:
            X, R = self.data
            weights = np.einsum("ij,ij->i", R @ M, R) / len(X)
            total = X.T @ (weights[:, None] * X)
            return total - self.G.T @ M @ self.G if centred else total
        E, S, S_eps = self._error()
        mean = np.sum(M * (E @ S @ E.T + S_eps)) * S
        return mean + (1 if centred else 2) * (self.G.T @ M @ self.G)

    def outputs(self, K: np.ndarray, centred: bool = True) -> np.ndarray:
        """E[(xᵀKx) rrᵀ], (k, k), less GKGᵀ if centred; K is symmetric."""
        if self.data is not None:
            X, R = self.data
            weights = np.einsum("ij,ij->i", X @ K, X) / len(X)
            total = R.T @ (weights[:, None] * R)
            return total - self.G @ K @ self.G.T if centred else total
        E, S, S_eps = self._error()
        mean = np.sum(K * S) * (E @ S @ E.T + S_eps)
        return mean + (1 if centred else 2) * (self.G @ K @ self.G.T)

    def _error(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert self.error is not None
        return self.error


def moments(problem: "Problem", V: np.ndarray) -> Moments:
    """The moments of a problem at the predictor V (k, d) of the column form y = Vx."""
    from ...problems import Population  # brings jax along
    from .._problem import least_squares

    problem = least_squares(problem)
    if V.shape != (problem.k, problem.d):
        raise ValueError(
            f"the product of the weights must be {(problem.k, problem.d)}, as outputs and inputs "
            f"of the problem are, got {V.shape}"
        )
    if isinstance(problem, Population):
        S = np.asarray(problem.sigma_x)
        E = V - problem.V
        return Moments(float(problem.weight), S, E @ S, error=(E, S, problem.sigma_eps))
    X = np.asarray(problem.X)
    R = X @ V.T - problem.labels
    scale = float(problem.weight) * problem.n
    return Moments(scale, X.T @ X / problem.n, R.T @ X / problem.n, data=(X, R))
