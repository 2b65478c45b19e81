"""The potentials of two-layer nets that start at $I_γ$."""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import norm
from .._problem import LeastSquares
from ..spectral import SpectralLimit, asinh_ratio, spectral_limit
from ..spectral._scalars import above, divergence_from_zero, slope
from ..spectral._svd import full_rank, matrix, positive, svd
from ._base import Potential


class SpectralScalarPotential(Potential):
    """See `spectral_scalar_potential`, which makes it."""

    def __init__(self, gamma: float):
        self.gamma = positive(gamma)

    def __repr__(self) -> str:
        return f"SpectralScalarPotential(gamma={self.gamma:g})"

    def value(self, theta: ArrayLike) -> float:
        root = np.sqrt(above(norm(_vector("theta", theta)), self.gamma))
        return float(2 * root**3 / 3 - 2 * self.gamma * root)

    def gradient(self, theta: ArrayLike) -> np.ndarray:
        vector = _vector("theta", theta)
        return vector / np.sqrt(above(norm(vector), self.gamma))

    def inverse_gradient(self, dual: ArrayLike) -> np.ndarray:
        vector = _vector("dual", dual)
        return vector * self._stretch(vector)

    def inverse_jacobian(self, dual: np.ndarray, directions: np.ndarray) -> np.ndarray:
        stretch = self._stretch(dual)
        along = np.tensordot(dual, directions, axes=dual.ndim)
        return stretch * directions + dual[..., None] / stretch * along

    def bregman(self, a: ArrayLike, b: ArrayLike) -> float:
        if not np.any(_vector("b", b)):  # the reach of the mirror bound: keep its digits
            checks.array("a", a, shape=np.shape(b))
            return divergence_from_zero(norm(_vector("a", a)), self.gamma)
        return super().bregman(a, b)

    def _stretch(self, dual: np.ndarray) -> float:
        """√(|y|² + 2γ)."""
        return np.hypot(norm(dual), np.sqrt(2 * self.gamma))


class SingularValuePotential(Potential):
    """See `singular_value_potential`, which makes it."""

    def __init__(self, gamma: float):
        self.gamma = positive(gamma)

    def __repr__(self) -> str:
        return f"SingularValuePotential(gamma={self.gamma:g})"

    def value(self, theta: ArrayLike) -> float:
        D = checks.array("theta", theta)
        return float(np.sum(D * asinh_ratio(D, self.gamma) - np.hypot(D, self.gamma)) / 2)

    def gradient(self, theta: ArrayLike) -> np.ndarray:
        return np.asarray(asinh_ratio(checks.array("theta", theta), self.gamma) / 2)

    def inverse_gradient(self, dual: ArrayLike) -> np.ndarray:
        return np.asarray(self.gamma * np.sinh(2 * checks.array("dual", dual)))

    def inverse_jacobian(self, dual: np.ndarray, directions: np.ndarray) -> np.ndarray:
        return (2 * self.gamma * np.cosh(2 * dual))[..., None] * directions

    def limit(self, problem: LeastSquares, theta0: ArrayLike | None = None):
        raise ValueError(
            "the singular-value potential has no limit of its own: singular vectors turn, so its "
            "mirror flow is not autonomous. Use spectral_limit(problem, gamma)"
        )


class ReducedSpectralPotential(Potential):
    """See `reduced_spectral_potential`, which makes it."""

    def __init__(self, gamma: float):
        self.gamma = positive(gamma)

    def __repr__(self) -> str:
        return f"ReducedSpectralPotential(gamma={self.gamma:g})"

    def value(self, theta: ArrayLike) -> float:
        beta = matrix("theta", theta)
        sigma = np.zeros(len(beta))
        sigma[: min(beta.shape)] = svd(beta).s
        log = np.log(above(sigma, self.gamma))
        return float(np.sum(np.hypot(sigma, self.gamma) - self.gamma * log))

    def gradient(self, theta: ArrayLike) -> np.ndarray:
        U, sigma, Vt = svd(matrix("theta", theta))
        return ((U * slope(sigma, self.gamma)) @ Vt).reshape(np.shape(theta))

    def inverse_gradient(self, dual: ArrayLike) -> np.ndarray:
        """θ with ∇F(θ) = `dual`; infinite unless all singular values of `dual` are below 1."""
        U, a, Vt = svd(matrix("dual", dual))
        if a[0] >= 1:
            return np.full(np.shape(dual), np.inf)
        sigma = 2 * self.gamma * a / ((1 - a) * (1 + a))
        return ((U * sigma) @ Vt).reshape(np.shape(dual))

    def inverse_jacobian(self, dual: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Of 2γ(I − ααᵀ)⁻¹α: with G = (I − ααᵀ)⁻¹, 2γ·G(dα αᵀ + α dαᵀ)Gα + 2γ·G dα."""
        a = matrix("dual", dual)
        d = directions.reshape(*a.shape, -1)
        G = np.linalg.inv(np.eye(len(a)) - a @ a.T)
        Ga = G @ a
        first = np.einsum("ij,jkm,kl->ilm", G, d, a.T @ Ga)
        second = np.einsum("ij,kjm,kl->ilm", Ga, d, Ga)
        third = np.einsum("ij,jkm->ikm", G, d)
        return (2 * self.gamma * (first + second + third)).reshape(directions.shape)


class LayerGradient(NamedTuple):
    """The gradient in each layer."""

    W1: np.ndarray
    W2: np.ndarray


class LogDetPotential:
    """See `log_det_potential`, which makes it."""

    def __init__(self, gamma: float):
        self.gamma = positive(gamma)

    def __repr__(self) -> str:
        return f"LogDetPotential(gamma={self.gamma:g})"

    def value(self, W1: ArrayLike, W2: ArrayLike) -> float:
        """Φ; infinite where the rows of W1 are dependent."""
        first, second = _two(W1, W2)
        s = scipy.linalg.svdvals(first)
        if len(s) < len(first) or not s[-1] > 0:
            return float("inf")
        squares = np.sum(first**2) + np.sum(second**2)
        return float(squares / 2 - 2 * self.gamma * np.sum(np.log(s)))

    def gradient(self, W1: ArrayLike, W2: ArrayLike) -> LayerGradient:
        """W1 − 2γ(W1⁺)ᵀ and W2."""
        first, second = _two(W1, W2)
        U, s, Vt = full_rank(first)
        return LayerGradient(first - 2 * self.gamma * (U / s) @ Vt, second)

    def of_gram(self, M: ArrayLike, beta: ArrayLike) -> float:
        """½tr(βᵀM⁻¹β) + ½tr M − γ log det M: the least Φ of layers with this M = W1W1ᵀ and β."""
        theta = matrix("beta", beta)
        gram = checks.array("M", M, shape=(len(theta), len(theta)))
        sign, logdet = np.linalg.slogdet(gram)
        if sign <= 0 or np.linalg.eigvalsh(gram)[0] <= 0:
            return float("inf")
        energy = np.sum(theta * np.linalg.solve(gram, theta)) + np.trace(gram)
        return float(energy / 2 - self.gamma * logdet)

    def limit(self, problem: LeastSquares) -> SpectralLimit:
        """The interpolator of least Φ, where gradient flow from $I_γ$ ends."""
        return spectral_limit(problem, self.gamma)


def spectral_scalar_potential(gamma: float) -> SpectralScalarPotential:
    r"""ψ_γ of one output (Theorem 3.2b): the mirror potential of the predictor.

    $\psi = \tfrac23w^{3/2} - 2\gamma w^{1/2}$ with $w = \gamma+\sqrt{|\beta|^2+\gamma^2}$. From any
    start with $W_1^TW_1 - W_2W_2^T = 2\gamma P^TP$ gradient flow obeys
    $d\nabla\psi = -\sqrt w\,\nabla L\,dt$, so `limit` is where it ends.

    Args:
        gamma: the scale of the init, above 0.
    """
    return SpectralScalarPotential(gamma)


def singular_value_potential(gamma: float) -> SingularValuePotential:
    """Ψ_γ of the singular values D of the predictor (Theorem 3.2a, corrected).

    Ψ = ½ tr[D asinh(D/γ) − √(D² + γ²)], with the gradient ½ asinh(D/γ); for γ → 0 it
    grows like ½ ln(1/γ) times the nuclear norm. Its methods take singular values, an array of
    any shape, and not a predictor.

    Args:
        gamma: the scale of the init, above 0.
    """
    return SingularValuePotential(gamma)


def reduced_spectral_potential(gamma: float) -> ReducedSpectralPotential:
    """F_γ of the predictor: the least log-det potential of all layers that make it.

    F = Σ [s_i − γ ln(γ + s_i)] with s_i = √(σ_i² + γ²), one term for each of the d inputs; its
    gradient is α and its limit for γ → 0 the nuclear norm. The flow from $I_γ$ ends where F is
    least among interpolators. From a start outside of the row space α does not move inside it:
    `limit` with such a `theta0` is a Bregman projection, but not the flow's limit.

    Args:
        gamma: the scale of the init, above 0.
    """
    return ReducedSpectralPotential(gamma)


def log_det_potential(gamma: float) -> LogDetPotential:
    """Φ = ½‖W1‖² + ½‖W2‖² − γ log det W1W1ᵀ of both layers (Theorem 3.1).

    It is not a function of the predictor, so it is no mirror potential: its `value` and
    `gradient` take W1 (d, width) and W2 (width, k), and `limit` a problem.

    Args:
        gamma: the scale of the init, above 0.
    """
    return LogDetPotential(gamma)


def _vector(name: str, value: ArrayLike) -> np.ndarray:
    array = checks.array(name, value, ndim=(1, 2))
    if array.ndim == 2 and array.shape[1] != 1:
        raise ValueError(f"{name} must have one output, (d,) or (d, 1), got shape {array.shape}")
    return array


def _two(W1: ArrayLike, W2: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    first = checks.array("W1", W1, ndim=(2,))
    return first, checks.array("W2", W2, shape=(first.shape[1], None))
