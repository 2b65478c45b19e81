"""What momentum does to what symmetries conserve, exactly, for any step size and any batches."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks


def discrete_noether(
    steps: ArrayLike,
    momentum: float,
    rates: ArrayLike | None = None,
    weight_decay: float = 0.0,
) -> np.ndarray:
    r"""J_k / J_0 of heavy ball: $\beta^k\,\eta_k/\eta_0$, times $\prod(1 - \eta_j\lambda)$.

    J is the angular momentum of a step under rotations of a hidden space, as
    `gb.observe.angular_momentum` measures it. Batches, noise of the data and decay in the gradient
    do not change it; decoupled decay shrinks it. Nesterov's momentum has no such law.

    Args:
        steps: k, whole numbers; an array.
        momentum: β.
        rates: the learning rate of every step up to the last of `steps`; constant if None.
        weight_decay: λ of decoupled decay, which needs `rates`.
    """
    k = np.ravel(checks.array("steps", steps)).astype(np.int64)
    if np.any(k < 0) or np.any(k != np.ravel(steps)):
        raise ValueError(f"steps must be whole numbers of at least 0, got {steps!r:.80}")
    beta = checks.number("momentum", momentum, at_least=0, below=1)
    decay = checks.number("weight_decay", weight_decay, at_least=0)
    if rates is None and decay > 0:
        raise ValueError("rates must be given where weight_decay is not 0, got None")
    if rates is None:
        return beta**k
    each = checks.array("rates", rates, ndim=(1,))
    if len(each) <= k.max(initial=0) or np.any(each <= 0):
        raise ValueError(
            f"rates must be positive, one for each of {k.max(initial=0) + 1} steps, got "
            f"{len(each)} of them"
        )
    kept = np.concatenate([[1.0], np.cumprod(1 - each[:-1] * decay)])
    return beta**k * each[k] / each[0] * kept[k]


def charge_sum_rule(
    squares: ArrayLike,
    momentum: float,
    lr: float = 0.0,
    weight_decay: float = 0.0,
    charges: ArrayLike | None = None,
    cross: float = 0.0,
) -> float:
    r"""C_K − C_0 of heavy ball from rest, by the squares of its steps.

    $\frac{1+\beta}{1-\beta}\sum_k E_k - 2\eta_e\lambda\sum_k C_k
    - \frac{2\beta}{1-\beta}(D_{K-1} + E_{K-1})$ with $E_k = \langle d_k, Ad_k\rangle$ and
    $D_k = \langle d_k, A\theta_k\rangle$; the last term vanishes once the run is at rest. Exact
    for a constant learning rate, whatever the batches.

    Args:
        squares: E_k of the steps 0 … K − 1.
        momentum: β.
        lr: η; it matters only with decay.
        weight_decay: λ of decay in the gradient.
        charges: C_k before each of these steps; needed with decay.
        cross: D of the last step; 0 for a run that has come to rest.
    """
    E = checks.array("squares", squares, ndim=(1,))
    beta = checks.number("momentum", momentum, at_least=0, below=1)
    lr = checks.number("lr", lr, at_least=0)
    decay = checks.number("weight_decay", weight_decay, at_least=0)
    change = momentum_factor(beta) * float(E.sum())
    if decay > 0:
        if charges is None:
            raise ValueError("charges must be given where weight_decay is not 0, got None")
        C = checks.array("charges", charges, shape=(len(E),))
        change -= 2 * lr / (1 - beta) * decay * float(C.sum())
    last = float(E[-1]) if len(E) else 0.0
    return change - 2 * beta / (1 - beta) * (checks.number("cross", cross) + last)


def momentum_factor(momentum: float) -> float:
    r"""$\frac{1+\beta}{1-\beta}$: how much more steps in one direction move charges with momentum.

    Against gradient descent with lr_e. White noise moves them as much as it does there.
    """
    beta = checks.number("momentum", momentum, at_least=0, below=1)
    return (1 + beta) / (1 - beta)
