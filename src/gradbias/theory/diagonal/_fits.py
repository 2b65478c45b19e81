"""The least-squares fits that a diagonal net can end at, and its arguments checked."""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from ...numerics import checks
from ...problems import Regression
from .._problem import LeastSquares, Params, finite_data, one_output, singular_basis
from .._units import CURVATURE, homogeneous

NET = "a diagonal net"
EPS = float(np.finfo(np.float64).eps)


@dataclasses.dataclass(frozen=True)
class Fits:
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

    def scaled(self, scale: float) -> "Fits":
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


def fits(problem: LeastSquares) -> Fits:
    """The fits of a problem with one output."""
    one_output(problem, NET)
    view = singular_basis(problem)
    b = view.minimiser
    labels = np.sqrt(len(b)) * np.max(np.abs(view.s * b), initial=0.0)
    return Fits(view.basis, b, view.s, EPS * labels / view.s)


def samples(problem: Regression) -> tuple[np.ndarray, np.ndarray, float]:
    """X (n, d), y (n,) and the weight of a regression with one output."""
    finite_data(problem, NET)
    one_output(problem, NET)
    return np.asarray(problem.X), np.asarray(problem.labels)[:, 0], float(problem.weight)


@homogeneous(CURVATURE)
def decay_rates(problem: Regression) -> np.ndarray:
    r"""$s_j = 8\,\mathrm{weight}\sum_i X_{ij}^2$: how fast label noise shrinks each $u_j v_j$.

    On the manifold of minimisers the Hessian has the trace Σ s_j(u_j² + v_j²), and under label
    noise with Σ = c·H the products decay as e^{−c·s·t}, t = k·lr² (Lemma D.13). For L = (1/2n)‖·‖²
    s_j = (4/n)Σ_i X_ij².
    """
    X, _, weight = samples(problem)
    return 8 * weight * np.sum(np.square(X), axis=0)


def halves(d: int, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """The two halves of the parameters, (d,) each."""
    if not isinstance(params, Mapping) or set(params) != {"u", "v"}:
        got = list(params) if isinstance(params, Mapping) else type(params).__name__
        raise ValueError(f"params must be a dict with u and v of a diagonal net, got {got!r:.80}")
    u, v = (checks.array(f"params[{n!r}]", params[n], shape=(d,)) for n in ("u", "v"))
    return u, v
