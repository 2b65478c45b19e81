"""Problems written in the basis of their row space, where gradients of squares are diagonal."""

from typing import Any

import equinox as eqx
import numpy as np

from ..numerics.memo import latest
from ..numerics.types import Array
from ..problems import Batch, Classification, Population, QuadraticProblem, Regression, Samples
from ..problems._batch import weighted
from ..problems._mean_loss import MeanLoss
from ..problems._population import DiagonalExcess, Fresh
from ..problems._regression import Rows, SpectralExcess
from ..problems.base import LossOfOutputs, Quadratic, Slope

Means = (Samples, Classification)
Spanned = QuadraticProblem | Samples | Classification  # problems whose row space is known


class SpectralRegression(Quadratic, Rows):
    """A Regression whose predictors are coordinates in the right singular vectors of X."""

    # U diag(s): a batch is looked up and not scaled. Not named X: a law that reads the inputs
    # themselves must fail here and not take coordinates for them.
    scaled: Any
    U: Any
    s: Any
    B: Any
    labels: Any
    weight: Any

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.labels.shape[0]

    @property
    def k(self) -> int:
        """The number of outputs."""
        return self.labels.shape[1]

    def theta_gradient(self, theta: Array, batch: Batch | None = None) -> Any:
        some = self.some(batch)
        if some is None:
            return self._on_all_rows(theta, batch)
        X, slope = some
        # Contracting the first axis as it lies in memory: faster than X.T @ …
        return (slope(X @ theta).T @ X).T

    def some(self, batch: Batch | None) -> tuple[Any, Slope] | None:
        if batch is None or (batch.indices is None and batch.x is None):
            return None
        if batch.x is None:
            X = self.scaled[batch.indices]
            Y = self.labels[batch.indices]
        else:
            X = batch.x
            Y = batch.y
        if batch.label_noise is not None:
            Y = Y + batch.label_noise
        weight = self.weight * (self.n / X.shape[0])
        return X, lambda outputs: 2 * weight * weighted(outputs - Y, batch)

    def _on_all_rows(self, theta, batch: Batch | None) -> Array:
        noise = None if batch is None else batch.label_noise
        if batch is not None and batch.weights is not None:
            Y = self.labels if noise is None else self.labels + noise
            return 2 * self.weight * self.pull(weighted(self.outputs(theta) - Y, batch))
        # Without weights the rows drop out: UᵀU = I.
        seen = self.B if noise is None else self.B + (noise.T @ self.U).T
        return 2 * self.weight * (self.s[:, None] * (self.s[:, None] * theta - seen))

    def outputs(self, theta: Array) -> Any:
        return self.U @ (self.s[:, None] * theta)

    def pull(self, cotangent: Array) -> Any:
        # Contracting the first axis of U as it lies in memory: 2–3 × faster than U.T @ …
        return self.s[:, None] * (cotangent.T @ self.U).T

    def excess(self) -> SpectralExcess:
        return SpectralExcess(self.s, None, self.B, self.weight)


class SpectralMean(MeanLoss):
    """A mean of losses of the outputs, of predictors in the right singular vectors of X."""

    inputs: Any  # not named X, as above
    targets: Any
    sample_loss: Any
    least: Any
    k: int = eqx.field(static=True)

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.inputs.shape[0]


class SpectralPopulation(Quadratic, Fresh):
    """A Population whose predictors are coordinates in the eigenvectors of sigma_x."""

    variances: Any
    theta_star: Any
    weight: Any
    root: Any
    root_eps: Any

    def theta_gradient(self, theta: Array, batch: Batch | None = None) -> Any:
        if batch is None:
            return 2 * self.weight * (self.variances[:, None] * (theta - self.theta_star))
        Y = batch.y if batch.label_noise is None else batch.y + batch.label_noise
        residual = weighted(batch.x @ theta - Y, batch)
        return 2 * self.weight / batch.x.shape[0] * (residual.T @ batch.x).T

    def excess(self) -> DiagonalExcess:
        return DiagonalExcess(self.variances, self.theta_star, self.weight)


@latest
def in_row_space(problem: Spanned) -> LossOfOutputs:
    """The problem in the coordinates of `problem.row_space`."""
    if isinstance(problem, Means):
        U, s, _ = problem.svd
        return SpectralMean(
            inputs=U * s,
            targets=problem.targets,
            sample_loss=problem.sample_loss,
            least=problem.least,
            k=problem.k,
        )
    if isinstance(problem, Regression):
        U, s, _ = problem.svd
        return SpectralRegression(
            scaled=U * s,
            U=U,
            s=s,
            B=U.T @ problem.labels,
            labels=problem.labels,
            weight=problem.weight,
        )
    if isinstance(problem, Population):
        basis = problem.row_space
        variances = np.einsum("ij,ij->j", basis, problem.sigma_x @ basis)
        return SpectralPopulation(
            variances=variances,
            theta_star=basis.T @ problem.theta_star,
            weight=problem.weight,
            root=np.sqrt(variances),
            root_eps=problem.root_eps,
        )
    raise TypeError(f"no spectral form of {type(problem).__name__}")
