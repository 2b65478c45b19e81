"""The potential of diagonal nets: between the ℓ1 norm (small α) and the ℓ2 norm (large α)."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ._base import Potential


class HyperbolicEntropy(Potential):
    """See `hyperbolic_entropy`, which makes it."""

    def __init__(self, alpha: np.ndarray, theta0: np.ndarray | None):
        self.alpha = alpha
        self.theta0 = theta0
        self._square = alpha * alpha
        self._tilt = np.zeros(()) if theta0 is None else np.arcsinh(theta0 / (2 * self._square))

    def __repr__(self) -> str:
        low = float(np.min(self.alpha))
        high = float(np.max(self.alpha))
        words = f"{low:g}" if low == high else f"{low:g}…{high:g}"
        return f"HyperbolicEntropy(alpha={words}{'' if self.theta0 is None else ', tilted'})"

    def value(self, theta: ArrayLike) -> float:
        theta = self._shaped("theta", theta)
        twice = 2 * self._square
        # 2 − √(4 + z²) + z·asinh(z/2) as a difference of two terms of which one is twice the other
        terms = theta * np.arcsinh(theta / twice) - theta * (
            theta / (twice + np.hypot(twice, theta))
        )
        return float(np.sum(terms - theta * self._tilt))

    def gradient(self, theta: ArrayLike) -> np.ndarray:
        return np.arcsinh(self._shaped("theta", theta) / (2 * self._square)) - self._tilt

    def inverse_gradient(self, dual: ArrayLike) -> np.ndarray:
        return 2 * self._square * np.sinh(self._shaped("dual", dual) + self._tilt)

    def inverse_jacobian(self, dual: np.ndarray, directions: np.ndarray) -> np.ndarray:
        mass = 2 * self._square * np.cosh(self._shaped("dual", dual) + self._tilt)
        return np.broadcast_to(mass, dual.shape)[..., None] * directions

    def _shaped(self, name: str, value: ArrayLike) -> np.ndarray:
        array = checks.array(name, value)
        if self._tilt.ndim or self.alpha.ndim:
            need = np.broadcast_shapes(self._tilt.shape, self.alpha.shape)
            return checks.array(name, array, shape=need)
        return array


def hyperbolic_entropy(alpha: ArrayLike, theta0: ArrayLike | None = None) -> HyperbolicEntropy:
    r"""The potential of the diagonal net $\theta = u^2 - v^2$.

    $$V = \sum_i \alpha_i^2\,q(\theta_i/\alpha_i^2),\qquad
    q(z) = 2 - \sqrt{4 + z^2} + z\,\mathrm{asinh}(z/2),$$

    where $\alpha_i^2 = |u_i(0)v_i(0)|$; its gradient is $\mathrm{asinh}(\theta/2\alpha^2)$. From an
    asymmetric start gradient flow ends at the least point of
    $V - \theta\cdot\mathrm{asinh}(\theta_0/2\alpha^2)$ among the minima of the loss.

    Args:
        alpha: α > 0, a number or one for every coordinate (d,).
        theta0: (d,), the predictor u(0)² − v(0)² of an asymmetric start, to tilt V so that its
            least point is there; None for u(0) = v(0).
    """
    size = checks.array("alpha", alpha, ndim=(0, 1))
    if not np.all(size * size > 0) or not np.all(size > 0):
        least = float(np.min(size, initial=math.inf))
        raise ValueError(f"alpha must be greater than 0, with its square, got {least:g}")
    if theta0 is None:
        return HyperbolicEntropy(size, None)
    start = checks.array("theta0", theta0, ndim=(1,))
    if size.ndim:
        start = checks.array("theta0", start, shape=size.shape)
    return HyperbolicEntropy(size, start)
