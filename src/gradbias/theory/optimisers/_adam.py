"""Adam: how far a step can go, and what noise alone makes of updates and weights."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks


def update_bound(beta1: float, beta2: float) -> float:
    r"""The largest |m|/√v of any gradients, $(1-\beta_1)/\sqrt{(1-\beta_2)(1-\beta_1^2/\beta_2)}$.

    7.2703 for (0.9, 0.999), attained by gradients ∝ (β₁/β₂)^j, j steps back. So with decoupled
    decay λ·max|w| stays below it, once it is. With bias correction the bound of step k grows to
    the same number.

    Args:
        beta1: β₁.
        beta2: β₂, above β₁².
    """
    beta1 = checks.number("beta1", beta1, at_least=0, below=1)
    beta2 = checks.number("beta2", beta2, above=0, below=1)
    if beta1**2 >= beta2:
        raise ValueError(
            f"beta2 must be above beta1² = {beta1**2:g}, got {beta2:g}: no bound exists then"
        )
    return float((1 - beta1) / np.sqrt((1 - beta2) * (1 - beta1**2 / beta2)))


def update_rms(beta1: float) -> float:
    r"""$\sqrt{(1-\beta_1)/(1+\beta_1)}$: Adam's update where gradients are white noise.

    0.2294 for β₁ = 0.9, in the mean over coordinates; for β₂ close to 1.
    """
    beta1 = checks.number("beta1", beta1, at_least=0, below=1)
    return float(np.sqrt((1 - beta1) / (1 + beta1)))


def noise_rms(lr: float, weight_decay: float) -> float:
    r"""$\sqrt{\eta/2\lambda}$: what weights are under AdamW where gradients are white noise.

    Whatever β₁; for lr·λ far below 1 − β₁ and 1 − β₂.

    Args:
        lr: η.
        weight_decay: λ, decoupled.
    """
    lr = checks.number("lr", lr, above=0)
    decay = checks.number("weight_decay", weight_decay, above=0)
    return float(np.sqrt(lr / (2 * decay)))


def noise_floor(lr: float, weight_decay: float) -> float:
    r"""$\sqrt{\eta\lambda/2}$: λ·rms(w) of a layer whose gradients are noise; 1 is the box.

    A layer near the floor has its size from noise and decay, not from the loss. The arguments are
    those of `noise_rms`.
    """
    return checks.number("weight_decay", weight_decay, above=0) * noise_rms(lr, weight_decay)


def signal_share(rms: ArrayLike, beta1: float) -> np.ndarray | float:
    r"""μ²/(μ² + σ²) of gradients, by the size of Adam's updates: $(u^2-f)/(1-f)$.

    With f = (1 − β₁)/(1 + β₁); of gradients that are a mean and white noise.

    Args:
        rms: u, the root mean square of updates over lr.
        beta1: β₁.
    """
    u = checks.array("rms", rms)
    floor = update_rms(beta1) ** 2
    return (u * u - floor) / (1 - floor)
