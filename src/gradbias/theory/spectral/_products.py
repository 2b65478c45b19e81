"""The products that are symmetric on whitened data: why singular vectors stand still (C.11)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import norm
from ...numerics.units import exponent, times_power_of_two
from .._problem import LeastSquares, force, layers_of
from .._units import PARAMETER, RATE, homogeneous
from ._svd import full_rank, matrix, positive


class SymmetricProducts(NamedTuple):
    """Symmetric at every time of a flow from $I_γ$ on whitened data.

    Attributes:
        outputs: αᵀR, (k, k), Eq C.17.
        inputs: αRᵀ, (d, d), Eq C.18.
        hidden: W1ᵀ R W2ᵀ, (width, width), Eq C.22.
    """

    outputs: np.ndarray
    inputs: np.ndarray
    hidden: np.ndarray

    @property
    def asymmetry(self) -> tuple[float, float, float]:
        """‖S − Sᵀ‖/‖S‖ of each; 0 where the product is zero."""
        first, second, third = (_asymmetry(product) for product in self)
        return first, second, third


@homogeneous({"outputs": RATE, "inputs": RATE, "hidden": 2 * PARAMETER + RATE})
def symmetric_products(problem: LeastSquares, params: Mapping[str, Any]) -> SymmetricProducts:
    """The three products of Theorem C.11's proof, with α = (W1⁺)ᵀ W2 and R = −∂L/∂β.

    Args:
        problem: a Regression or a Population; whitened for the products to be symmetric.
        params: {"W1": (d, width), "W2": (width, k)} with W1 of rank d.
    """
    W1, W2 = layers_of(problem, params)
    R = force(problem, W1 @ W2)
    left, s, right = full_rank(W1)
    alpha = (left / s) @ (right @ W2)
    return SymmetricProducts(alpha.T @ R, alpha @ R.T, (W1.T @ R) @ W2.T)


def product_velocity(
    alpha: ArrayLike, R: ArrayLike, gamma: float, scale: float = 1.0
) -> np.ndarray:
    r"""The velocity of $C = R^T\alpha$ on whitened data, for any α and R.

    $C' = R^TR - C^2 - 2\gamma c(GC + CG - C)$ with $G = (I-\alpha^T\alpha)^{-1}$. So the
    antisymmetric part obeys an anti-commutator, $S' = HS + SH$ with
    $H = \gamma c I - \tfrac12(C+C^T) - 2\gamma c\,G$, and S = 0 at the start stays 0.

    Args:
        alpha: (d, k), or (d,) with one output; singular values below 1.
        R: of the shape of `alpha`.
        gamma: the scale of the init, above 0.
        scale: c of XᵀX = c·I or XXᵀ = c·I.

    Returns:
        C', (k, k).
    """
    a = matrix("alpha", alpha)
    gamma = positive(gamma)
    r = checks.array("R", R, shape=np.shape(alpha)).reshape(a.shape)
    rate = 2 * gamma * checks.number("scale", scale, above=0)
    unit = exponent(r, rate) or 0  # R and 2γc are rates: their squares may be beyond float64
    r = times_power_of_two(r, -unit)
    rate = float(times_power_of_two(rate, -unit))
    C = r.T @ a
    gap = np.eye(a.shape[1]) - a.T @ a
    if not np.linalg.eigvalsh(gap)[0] > 0:
        raise ValueError(
            f"alpha must have singular values below 1, got {np.linalg.norm(a, 2):.17g}"
        )
    G = np.linalg.inv(gap)
    velocity = r.T @ r - C @ C - rate * (G @ C + C @ G - C)
    return times_power_of_two(velocity, 2 * unit)


def _asymmetry(product: np.ndarray) -> float:
    size = norm(product)
    return norm(product / size - product.T / size) if size else 0.0
