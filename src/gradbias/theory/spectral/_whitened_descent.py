"""Gradient descent from $I_γ$ on whitened data: two scalars for every singular value."""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ._scalars import potential_rise
from ._svd import nonnegative, positive


class WhitenedDescent(NamedTuple):
    """The singular values of the two layers, signed, at steps 0, 1, …; (steps + 1, …)."""

    z1: np.ndarray
    z2: np.ndarray


def whitened_descent(
    sigma: ArrayLike, gamma: float, lr: float, steps: int, scale: float = 1.0
) -> WhitenedDescent:
    r"""The exact recursion $z_1^+ = z_1+\eta\rho z_2$, $z_2^+ = z_2+\eta\rho z_1$.

    $\rho = c(\sigma^* - z_1z_2)$, from $z_1 = \sqrt{2\gamma}$ and $z_2 = 0$; the predictor has the
    singular value $z_1z_2$. A step multiplies $z_1^2 - z_2^2$ by $1 - \eta^2\rho^2$.

    Args:
        sigma: singular values of the limit β*, at least 0, of any shape.
        gamma: the scale of the init, above 0.
        lr: the step size η, for L = ½‖Xβ − Y‖².
        steps: how many.
        scale: c of XᵀX = c·I or XXᵀ = c·I.
    """
    star = nonnegative("sigma", sigma)
    gamma = positive(gamma)
    lr = checks.number("lr", lr, above=0)
    steps = checks.integer("steps", steps)
    rate = lr * checks.number("scale", scale, above=0)
    path = np.zeros((steps + 1, 2, *star.shape))
    path[0, 0] = np.sqrt(2 * gamma)
    with np.errstate(over="ignore", invalid="ignore"):  # too large a step diverges
        for now, after in itertools.pairwise(path):
            pull = rate * (star - now[0] * now[1])
            after[:] = now + pull * now[::-1]
    return WhitenedDescent(path[:, 0], path[:, 1])


def effective_gamma(sigma: ArrayLike, gamma: float, lr: float, scale: float = 1.0) -> np.ndarray:
    r"""The γ that describes the end of gradient descent with a finite step, to first order.

    $\gamma\,e^{-\eta c(\Psi_\gamma(\sigma^*)-\Psi_\gamma(0))}$ with the singular-value potential
    Ψ, up to O(η²); put it into `limit_singular_values`, one singular value at a time.

    Args:
        sigma: singular values of the limit β*, at least 0, of any shape.
        gamma: the scale of the init, above 0.
        lr: the step size η, for L = ½‖Xβ − Y‖².
        scale: c of XᵀX = c·I or XXᵀ = c·I.
    """
    star = nonnegative("sigma", sigma)
    gamma = positive(gamma)
    rate = checks.number("lr", lr, above=0) * checks.number("scale", scale, above=0)
    return np.asarray(gamma * np.exp(-rate * potential_rise(star, gamma)))
