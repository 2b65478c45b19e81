"""The equilibrium of many diagonal symmetries at once: the least noise of their orbit."""

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.balance_roots import orbit_balance


class JointEquilibrium(NamedTuple):
    """How far to move along each of several symmetries.

    Attributes:
        lam: (g,) λ of every generator; 0 where `alive` is not.
        alive: (g,) whether noise or decay pulls it both ways; the others have no equilibrium.
        imbalance: (g,) what is left: the logarithm of the ratio of the two pulls.
        potential: κ Tr Σ + 4γ‖θ‖² before and after.
    """

    lam: np.ndarray
    alive: np.ndarray
    imbalance: np.ndarray
    potential: tuple[float, float]


def joint_equilibrium(
    mu: ArrayLike, sigma2: ArrayLike, theta2: ArrayLike, kappa: float, weight_decay: float = 0.0
) -> JointEquilibrium:
    r"""The point of the orbit of several diagonal symmetries with the least κ Tr Σ + 4γ‖θ‖².

    It is where the Noether flow of all of them vanishes: the potential is convex in
    $\lambda$, on $\theta_\lambda = e^{\sum_g \lambda_g A_g}\theta$. Convention: κ = lr/S,
    C = θᵀAθ, objective L + γ‖θ‖².

    Args:
        mu: (g, D) the diagonals of the generators.
        sigma2: (D,) the diagonal of the gradient noise.
        theta2: (D,) the squares of the parameters.
        kappa: lr/S.
        weight_decay: γ ≥ 0.
    """
    mu = checks.array("mu", mu, ndim=(2,))
    sigma2 = _squares("sigma2", sigma2, mu.shape[1])
    theta2 = _squares("theta2", theta2, mu.shape[1])
    weights = (
        checks.number("kappa", kappa, at_least=0),
        4 * checks.number("weight_decay", weight_decay, at_least=0),
    )
    with np.errstate(divide="ignore"):
        logs = [np.log(w) + np.log(x) for w, x in zip(weights, (sigma2, theta2), strict=True)]
    found = orbit_balance(scipy.sparse.csc_array(mu.T), *logs)
    if not found.reached:
        raise ValueError(
            "mu: these symmetries have no joint equilibrium at a finite distance: along some "
            "combination of them noise and decay only fall"
        )
    move = found.x @ mu
    before = float(weights[0] * sigma2.sum() + weights[1] * theta2.sum())
    after = weights[0] * np.exp(-2 * move) @ sigma2 + weights[1] * np.exp(2 * move) @ theta2
    return JointEquilibrium(found.x, found.alive, found.imbalance, (before, float(after)))


def _squares(name: str, value: ArrayLike, size: int) -> np.ndarray:
    array = checks.array(name, value, shape=(size,))
    if np.any(array < 0):
        raise ValueError(f"{name} must not be negative, got {array.min()}")
    return array
