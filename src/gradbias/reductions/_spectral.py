"""Quadratic problems written in the basis of their row space, where gradients are diagonal."""

from typing import Any

import numpy as np

from ..problems import Batch, Population, QuadraticProblem, Regression
from ..problems._base import Quadratic
from ..problems._population import DiagonalExcess
from ..problems._regression import SpectralExcess


class SpectralRegression(Quadratic):
    """A Regression whose predictors are coordinates in the right singular vectors of X."""

    U: Any
    s: Any
    B: Any
    Y: Any
    weight: Any

    def theta_gradient(self, theta, batch: Batch | None = None) -> Any:
        if batch is None or (batch.indices is None and batch.x is None):
            seen = self.B if batch is None else self.B + self.U.T @ batch.label_noise
            return 2 * self.weight * (self.s[:, None] * (self.s[:, None] * theta - seen))
        if batch.x is None:
            X, Y = self.U[batch.indices] * self.s[None, :], self.Y[batch.indices]
        else:
            X, Y = batch.x, batch.y
        if batch.label_noise is not None:
            Y = Y + batch.label_noise
        scale = 2 * self.weight * (self.Y.shape[0] / X.shape[0])
        return scale * (X.T @ (X @ theta - Y))

    def excess(self) -> SpectralExcess:
        return SpectralExcess(self.s, None, self.B, self.weight)


class SpectralPopulation(Quadratic):
    """A Population whose predictors are coordinates in the eigenvectors of sigma_x."""

    variances: Any
    theta_star: Any
    weight: Any

    def theta_gradient(self, theta, batch: Batch | None = None) -> Any:
        if batch is None:
            return 2 * self.weight * (self.variances[:, None] * (theta - self.theta_star))
        residual = batch.x @ theta - batch.y
        return 2 * self.weight / batch.x.shape[0] * (batch.x.T @ residual)

    def excess(self) -> DiagonalExcess:
        return DiagonalExcess(self.variances, self.theta_star, self.weight)


def in_row_space(problem: QuadraticProblem) -> Quadratic:
    """The problem in the coordinates of `problem.row_space`."""
    if isinstance(problem, Regression):
        U, s, _ = problem.svd
        return SpectralRegression(U, s, U.T @ problem.labels, problem.labels, problem.weight)
    if isinstance(problem, Population):
        basis = problem.row_space
        variances = np.einsum("ij,ij->j", basis, problem.sigma_x @ basis)
        return SpectralPopulation(variances, basis.T @ problem.theta_star, problem.weight)
    raise TypeError(f"no spectral form of {type(problem).__name__}")
