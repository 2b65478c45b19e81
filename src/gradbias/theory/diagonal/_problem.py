"""What the diagonal net sees of a problem, and its arguments checked."""

import dataclasses
import functools

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...problems import QuadraticProblem, Regression
from .._units import CURVATURE, homogeneous

EPS = float(np.finfo(np.float64).eps)


@dataclasses.dataclass(frozen=True)
class Target:
    """The least-squares fits, Vᵀθ = b, without the data's conditioning.

    Attributes:
        V: (d, r) orthonormal basis of the row space, the right singular vectors.
        b: (r,) what every fit has in it.
        s: (r,) the loss above its minimum is weight·‖s∘(Vᵀθ − b)‖².
        noise: (r,) how well float64 data know b.
    """

    V: np.ndarray
    b: np.ndarray
    s: np.ndarray
    noise: np.ndarray

    def scaled(self, scale: float) -> "Target":
        """The same with θ in units of `scale`."""
        return dataclasses.replace(self, b=self.b / scale, noise=self.noise / scale)

    @functools.cached_property
    def size(self) -> np.ndarray:
        """(r, d) the absolute values of Vᵀ."""
        return np.abs(self.V.T)

    @functools.cached_property
    def largest(self) -> float:
        """The logarithm of the largest |b|."""
        top = float(np.max(np.abs(self.b), initial=0.0))
        return float(np.log(top)) if top > 0 else -np.inf

    def excess(self, theta: np.ndarray) -> float:
        """‖s∘(Vᵀθ − b)‖²: the sum of squares above its minimum."""
        return float(np.sum(np.square(self.s * (self.V.T @ theta - self.b))))


def target(problem: QuadraticProblem) -> Target:
    """The fits of a problem with one output."""
    if not isinstance(problem, QuadraticProblem):
        raise ValueError(
            f"problem must be a Regression or a Population, got {type(problem).__name__}"
        )
    one_output(problem)
    V = problem.row_space
    s = problem.svd.s if isinstance(problem, Regression) else _root_spectrum(problem)
    b = V.T @ np.reshape(problem.min_norm, problem.d)
    labels = np.sqrt(len(b)) * np.max(np.abs(s * b), initial=0.0)
    return Target(V, b, s, EPS * labels / s)


def _root_spectrum(problem: QuadraticProblem) -> np.ndarray:
    """Square roots of the eigenvalues of the inputs' covariance, for a Population."""
    return np.sqrt(problem.svd.s)  # pyright: ignore[reportAttributeAccessIssue]


def finite_data(problem: Regression) -> tuple[np.ndarray, np.ndarray, float]:
    """X (n, d), y (n,) and the weight of a regression with one output."""
    if not isinstance(problem, Regression):
        raise ValueError(f"problem must be a Regression, got {type(problem).__name__}")
    one_output(problem)
    return np.asarray(problem.X), np.asarray(problem.labels)[:, 0], float(problem.weight)


def one_output(problem: QuadraticProblem) -> None:
    """Refuse several outputs."""
    if problem.k != 1:
        raise ValueError(
            f"problem must have one output for a diagonal net, got {problem.k}: "
            "treat the outputs one by one"
        )


@homogeneous(CURVATURE)
def decay_rates(problem: Regression) -> np.ndarray:
    r"""$s_j = 8\,\mathrm{weight}\sum_i X_{ij}^2$: how fast label noise shrinks each $u_j v_j$.

    On the manifold of minimisers the Hessian has the trace Σ s_j(u_j² + v_j²), and under label
    noise with Σ = c·H the products decay as e^{−c·s·t}, t = k·lr² (Lemma D.13). For L = (1/2n)‖·‖²
    s_j = (4/n)Σ_i X_ij².
    """
    X, _, weight = finite_data(problem)
    return 8 * weight * np.sum(np.square(X), axis=0)


def halves(
    problem: QuadraticProblem, u: ArrayLike, v: ArrayLike, names: tuple[str, str] = ("u", "v")
) -> tuple[np.ndarray, np.ndarray]:
    """The two halves of the parameters, (d,) each."""
    shape = (problem.d,)
    return checks.array(names[0], u, shape=shape), checks.array(names[1], v, shape=shape)
