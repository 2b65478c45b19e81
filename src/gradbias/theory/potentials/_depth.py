"""The potential of balanced deep and rank-1 nets, for any depth and gap."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import norm
from .._problem import LeastSquares
from ._base import Potential
from ._dual import PotentialLimit
from ._root import growth


class DepthPotential(Potential):
    """See `rank1_potential`, which makes it."""

    def __init__(self, theta0: np.ndarray, depth: float, gap: float):
        self.theta0 = theta0
        self.depth = depth
        self.gap = gap
        rho = norm(theta0)
        self._tilt = theta0 * rho ** (1 / depth - 1) if rho else 0 * theta0

    def __repr__(self) -> str:
        return f"DepthPotential(depth={self.depth:g}, gap={self.gap:g})"

    def value(self, theta: ArrayLike) -> float:
        theta = self._shaped("theta", theta)
        tilted = float(np.sum(theta * self._tilt))
        size = norm(theta)
        xi = self._outer(size)
        length = size / xi if size else 0.0
        share = 1 / (self.depth + 1)
        return xi * (length**2 * (1 - share) + self.gap * share) - tilted

    def gradient(self, theta: ArrayLike) -> np.ndarray:
        theta = self._shaped("theta", theta)
        if not theta.any():
            if self.depth > 1 and (self.gap > 0 or self.depth == math.inf):
                raise ValueError(f"theta must not be zero, where {self!r} has a kink")
            return -self._tilt
        return theta / self._outer(norm(theta)) - self._tilt

    def inverse_gradient(self, dual: ArrayLike) -> np.ndarray:
        v1, xi = self._first_layer(dual)
        return xi * v1

    def inverse_jacobian(self, dual: np.ndarray, directions: np.ndarray) -> np.ndarray:
        v1, xi = self._first_layer(dual)
        square = norm(v1) ** 2 - self.gap
        along = np.tensordot(v1, directions, axes=v1.ndim)
        factor = (self.depth - 1) / square if square > 0 else 0.0
        return xi * (directions + factor * v1[..., None] * along)

    def limit(self, problem: LeastSquares, theta0: ArrayLike | None = None) -> PotentialLimit:
        if self.depth < math.inf:
            return super().limit(problem, theta0)
        raise ValueError(
            "depth must be finite for the dual of this potential, which is linear along rays at "
            "infinite depth: use balanced_limit(problem, theta0, float('inf'), gap)"
        )

    def _outer(self, size: float) -> float:
        """ξ = s^{N−1}, the product of all layers but the first, where ‖θ‖ = `size`."""
        T = 2 * math.log(size) if size else -math.inf
        return math.exp(growth(self.depth - 1, 1 + self.gap, self.gap, T).z / 2)

    def _first_layer(self, dual: ArrayLike) -> tuple[np.ndarray, float]:
        """v1 = dual + tilt, and ξ; below the kink ξ is zero."""
        if self.depth == math.inf:
            raise ValueError(
                "depth must be finite for the inverse gradient: at infinite depth the gradient "
                "knows the direction of theta only"
            )
        v1 = self._shaped("dual", dual) + self._tilt
        square = norm(v1) ** 2 - self.gap
        return v1, float(np.float64(max(square, 0.0)) ** ((self.depth - 1) / 2))

    def _shaped(self, name: str, value: ArrayLike) -> np.ndarray:
        return checks.array(name, value, shape=self.theta0.shape)


def rank1_potential(theta0: ArrayLike, depth: int | float, gap: float = 0.0) -> DepthPotential:
    r"""The potential of a balanced net: gradient flow ends at its least point among the minima.

    $$V = \tfrac{N}{N+1}\|\theta\|^{1+1/N} - \theta\cdot\theta_0\,\|\theta_0\|^{1/N-1}$$

    Its gradient is the motion of the first layer, $\pm(v_1 - v_1(0))$. With a gap
    $\delta = \|v_1\|^2 - s^2$ the first term becomes the conjugate of
    $(a^2 - \delta)^{(N+1)/2}/(N+1)$ at $a = \|v_1\|$: to first order $\tfrac{\delta}{2}
    \|\theta\|^{1-1/N}$ is added. At infinite depth it is
    $\sqrt{1+\delta}\,\|\theta\| - \theta\cdot\theta_0/\|\theta_0\|$.

    `limit(problem)` agrees with `balanced_limit(problem, theta0, depth, gap)`, which is cheaper.

    Args:
        theta0: (d,), the predictor of the balanced start.
        depth: N, the number of factors: layers of a standard net, 2L − 1 for a rank-1 net of L
            layers; may be `float("inf")`.
        gap: δ at the end; 0 for gradient flow.
    """
    N = checked_depth(depth)
    delta = checks.number("gap", gap)
    if math.isinf(N) and delta <= -1:
        raise ValueError(f"gap must be greater than -1 when depth is infinite, got {delta}")
    return DepthPotential(checks.array("theta0", theta0, ndim=(1,)), N, delta)


def checked_depth(depth: float, finite: bool = False) -> float:
    """The number of factors: a whole number of at least 1 or, unless refused, infinity."""
    if not finite and isinstance(depth, (float, np.floating)) and depth == float("inf"):
        return float("inf")
    return float(checks.integer("depth", depth, at_least=1))
