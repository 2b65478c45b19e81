"""What theory reads from a least-squares problem, and the checks of it: the same for everyone."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..problems import Population, Regression

LeastSquares: TypeAlias = Regression | Population
Params: TypeAlias = Mapping[str, ArrayLike]


@dataclass(frozen=True, eq=False)
class SingularBasis:
    """A problem in the singular basis of its data, directions without data left out.

    A Population counts as data X with XᵀX = Σ. The rank is that of the problem's own singular
    value decomposition.
    """

    problem: LeastSquares

    @property
    def basis(self) -> np.ndarray:
        """(d, r) orthonormal basis of the row space."""
        return self.problem.row_space

    @property
    def s(self) -> np.ndarray:
        """(r,) singular values of X, the largest first."""
        s = self.problem.svd.s
        return s if isinstance(self.problem, Regression) else np.sqrt(s)

    @functools.cached_property
    def curvature(self) -> np.ndarray:
        """(r,) eigenvalues of the Hessian in the predictor, 2·weight·XᵀX; all positive."""
        s = self.problem.svd.s
        squares = s * s if isinstance(self.problem, Regression) else s
        return 2 * float(self.problem.weight) * squares

    @property
    def labels(self) -> np.ndarray:
        """(r, k) B of L = L* + weight·‖sβ − B‖², with β the predictor in this basis."""
        U, _, Vt = self.problem.svd
        if isinstance(self.problem, Population):
            return self.s[:, None] * (Vt @ self.problem.theta_star)
        return U.T @ self.problem.labels

    @functools.cached_property
    def minimiser(self) -> np.ndarray:
        """(r,) the minimiser of least norm, of a problem with one output."""
        return self.basis.T @ np.reshape(self.problem.min_norm, self.problem.d)


def singular_basis(problem: object) -> SingularBasis:
    """A problem as its data see it; refuse one without a squared loss."""
    return SingularBasis(least_squares(problem))


def least_squares(problem: object) -> LeastSquares:
    """Refuse a problem without a squared loss."""
    if not isinstance(problem, (Regression, Population)):
        raise ValueError(
            f"problem must be a Regression or a Population, got {type(problem).__name__}"
        )
    return problem


def one_output(problem: object, what: str) -> LeastSquares:
    """Refuse several outputs, which `what` is not about."""
    checked = least_squares(problem)
    if checked.k != 1:
        raise ValueError(
            f"problem must have one output (k = 1) for {what}, got k = {checked.k}: "
            "treat the outputs one by one"
        )
    return checked


def finite_data(problem: object, what: str) -> Regression:
    """Refuse fresh samples, which `what` is not about."""
    if not isinstance(problem, Regression):
        raise ValueError(f"problem must be a Regression for {what}, got {type(problem).__name__}")
    return problem


def predictor(name: str, theta: ArrayLike, problem: LeastSquares) -> np.ndarray:
    """A one-output predictor given by the user, as a vector (d,)."""
    vector = checks.array(name, theta, ndim=(1, 2))
    if vector.shape not in ((problem.d,), (problem.d, 1)):
        raise ValueError(
            f"{name} must have shape ({problem.d},) or ({problem.d}, 1), got {vector.shape}"
        )
    return vector.reshape(problem.d)


def force(problem: object, theta: ArrayLike) -> np.ndarray:
    """R = −∂L/∂θ, (d, k); the predictor is checked against the problem."""
    checked = least_squares(problem)
    return -np.asarray(checked.gradient(checked.as_predictor(theta)))


def project(basis: np.ndarray, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates of a vector in an orthonormal basis, and the part outside of its span."""
    inside = basis.T @ vector
    outside = vector - basis @ inside
    return inside, outside - basis @ (basis.T @ outside)  # once leaves rounding inside


def two_layers(
    params: Params, d: int | None = None, k: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """W1 (d, width) and W2 (width, k) of a two-layer net; None stands for any size."""
    if not isinstance(params, Mapping) or not {"W1", "W2"} <= set(params):
        got = list(params) if isinstance(params, Mapping) else type(params).__name__
        raise ValueError(
            f"params must be a dict with W1 and W2 of a two-layer net, got {got!r:.80}"
        )
    W1 = checks.array("params['W1']", params["W1"], shape=(d, None))
    W2 = checks.array("params['W2']", params["W2"], shape=(W1.shape[1], k))
    if W1.shape[1] == 0:
        raise ValueError("params must have a width of at least 1, got 0")
    return W1, W2


def layers_of(problem: object, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """W1 (d, width) and W2 (width, k) of a two-layer net for this problem."""
    checked = least_squares(problem)
    return two_layers(params, checked.d, checked.k)
