"""Sharpness-aware minimisation near minima: an orbit of period two, and how fast it drifts."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks


def sam_orbit(lr: float, rho: float, sharpness: ArrayLike) -> np.ndarray | float:
    r"""$\frac{\eta\lambda\rho}{2-\eta\lambda}$: how far from the minimum SAM ends up, on two sides.

    Of descent with the gradient ρ uphill, all data in every step, along the eigenvector of the
    largest curvature λ.

    Args:
        lr: η.
        rho: ρ.
        sharpness: λ, below 2/η.
    """
    stable = _stable(lr, sharpness)
    return checks.number("rho", rho, above=0) * stable / (2 - stable)


def sam_factor(lr: float, sharpness: ArrayLike) -> np.ndarray | float:
    r"""$\frac{4}{(2-\eta\lambda)^2}$: how much faster SAM of finite steps flattens.

    In time t = k·η·ρ² it moves along the minima by $-\frac12\nabla\lambda$ (projected) times this,
    with λ the largest eigenvalue of the Hessian, where it is simple. 1 for small steps.

    Args:
        lr: η.
        sharpness: λ, below 2/η.
    """
    return 4 / (2 - _stable(lr, sharpness)) ** 2


def _stable(lr: float, sharpness: ArrayLike) -> np.ndarray | float:
    """ηλ, checked."""
    rate = checks.number("lr", lr, above=0)
    values = checks.array("sharpness", sharpness)
    if np.any(values <= 0) or np.any(rate * values >= 2):
        raise ValueError(
            f"sharpness must be between 0 and 2/lr = {2 / rate:g}, got {float(values.min()):g} to "
            f"{float(values.max()):g}: a minimum is not stable there"
        )
    return rate * values
