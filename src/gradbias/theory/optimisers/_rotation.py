"""Scale-invariant weights under decay: the norm and the rotation at which they settle."""

import math
from typing import NamedTuple

from ...numerics import checks

KINDS = ("unit", "sgd")


class Equilibrium(NamedTuple):
    """Where a random walk and decay balance.

    Attributes:
        norm: ‖w‖.
        angle: by which w turns in a step, in radians.
    """

    norm: float
    angle: float


def rotational_equilibrium(
    lr: float, weight_decay: float, size: float = 1.0, kind: str = "unit", momentum: float = 0.0
) -> Equilibrium:
    r"""Norm and angle per step of weights that are scale-invariant, in the random-walk model.

    Updates at right angles to w. "unit": their squared norm is C = `size`, whatever w is, as in
    Adam, Lion and Muon with decoupled decay (Muon: c²·rank): $\|w\|^2 = \eta C/(2\lambda -
    \eta\lambda^2)$ and $\sin = \sqrt{2\eta\lambda - \eta^2\lambda^2}$. "sgd": gradients of squared
    norm C/‖w‖²: $\|w\|^4 = \eta C/(2\lambda - \eta\lambda^2)$, angle $\sqrt{2\eta\lambda}$; with
    heavy ball, to leading order, $\|w\|^4 = \eta C/(2\lambda(1-\beta))$ and
    $\sqrt{2\eta\lambda/(1+\beta)}$.

    Args:
        lr: η.
        weight_decay: λ as torch counts it.
        size: C.
        kind: "unit" or "sgd".
        momentum: β of "sgd".
    """
    lr = checks.number("lr", lr, above=0)
    decay = checks.number("weight_decay", weight_decay, above=0)
    size = checks.number("size", size, above=0)
    kind = checks.one_of("kind", kind, KINDS)
    beta = checks.number("momentum", momentum, at_least=0, below=1)
    if lr * decay >= 1:
        raise ValueError(f"lr·weight_decay must be less than 1, got {lr * decay:g}")
    squared = lr * size / (2 * decay - lr * decay**2)
    if kind == "unit":
        if beta > 0:
            raise ValueError(f"momentum must be 0 for updates of unit size, got {beta:g}")
        return Equilibrium(math.sqrt(squared), math.asin(math.sqrt(lr * decay * (2 - lr * decay))))
    if beta > 0:
        squared = lr * size / (2 * decay * (1 - beta))
    return Equilibrium(squared**0.25, math.sqrt(2 * lr * decay / (1 + beta)))
