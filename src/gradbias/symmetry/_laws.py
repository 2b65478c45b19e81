"""What one step of an optimiser does to a charge: exactly, for any step size and any batch.

Plain arithmetic, on numbers and arrays of NumPy or jax.
"""

from typing import Any

from ..numerics import quadratic_step
from ..numerics.types import Number


def step(charge: Number, square: Number, lr: Number, weight_decay: Number = 0.0) -> Number:
    r"""The charge after a step θ ← θ − lr·(g + 2γθ): $(1 - 2\,lr\,\gamma)^2 C + lr^2 g^T A g$.

    Args:
        charge: C before the step.
        square: gᵀAg of the step's data gradient g, `symmetry.form(g, g)`.
        lr: learning rate.
        weight_decay: γ of the objective L + γ‖θ‖² (torch's `weight_decay` is 2γ).
    """
    return charge + increment(charge, square, lr, weight_decay)


def increment(charge: Number, square: Number, lr: Number, weight_decay: Number = 0.0) -> Number:
    """C' − C of `step`, without the cancellation."""
    return lr * lr * square - 4 * lr * weight_decay * (1 - lr * weight_decay) * charge


def momentum_step(
    charge: Number,
    cross: Number,
    square: Number,
    lr: Number,
    momentum: Number,
    weight_decay: Number = 0.0,
) -> tuple[Any, Any]:
    r"""Charge and cross term after a step v ← βv + g + 2γθ, θ ← θ − lr·v.

    With $D = \theta^T A v$ and $a = \beta D + 2\gamma C$: $C' = C - 2\,lr\,a + lr^2 v'^T A v'$ and
    $D' = a - lr\,v'^T A v'$. D is 0 at the start, where v is.

    Args:
        charge: C before the step.
        cross: D before the step, with the old v.
        square: v'ᵀAv' of the new v.
        lr: learning rate.
        momentum: β.
        weight_decay: γ of the objective L + γ‖θ‖².

    Returns:
        C' and D'.
    """
    change, cross = momentum_increment(charge, cross, square, lr, momentum, weight_decay)
    return charge + change, cross


def momentum_increment(
    charge: Number,
    cross: Number,
    square: Number,
    lr: Number,
    momentum: Number,
    weight_decay: Number,
) -> tuple[Any, Any]:
    """C' − C and D' of `momentum_step`."""
    return quadratic_step.momentum_increment(
        charge, cross, square, square, lr, momentum, 2 * weight_decay
    )
