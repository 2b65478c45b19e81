"""Muon on two layers of whitened data, aligned with the target: straight lines in closed form."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks

ALIGNED = 1e-9  # relative: above, layers are not aligned with the target


class MuonPath(NamedTuple):
    """Singular values along Muon's flow, (times, modes) each, in the order of those of M.

    Attributes:
        first: of W1.
        second: of W2.
        product: of W1 W2.
    """

    first: np.ndarray
    second: np.ndarray
    product: np.ndarray


def muon_singular_values(M: ArrayLike, params: Mapping[str, ArrayLike], t: ArrayLike) -> MuonPath:
    r"""Singular values of both layers at times t = k·lr·scale of Muon on $\frac12\|W_1W_2-M\|^2$.

    All grow at unit speed, $a_i = a_i(0) + t$, until mode i is learnt at `learning_times`; from
    there on a run stays within lr of it. The same before the first of these times with momentum,
    which then overshoots.

    Args:
        M: (d, k) the target, of distinct positive singular values.
        params: W1 (d, h) and W2 (h, k), aligned: W1 = U diag(a) Oᵀ, W2 = O diag(b) Vᵀ with
            M = U diag(s) Vᵀ, all a, b positive and a·b < s.
        t: times.
    """
    a, b, _ = _modes(M, params)
    until = learning_times(M, params)
    times = np.minimum(np.ravel(checks.array("t", t))[:, None], until[None, :])
    if np.any(times < 0):
        raise ValueError(f"t must not be negative, got {times.min()}")
    first = a[None, :] + times
    second = b[None, :] + times
    return MuonPath(first, second, first * second)


def learning_times(M: ArrayLike, params: Mapping[str, ArrayLike]) -> np.ndarray:
    r"""$T_i = \frac12[\sqrt{(a_i-b_i)^2+4s_i}-(a_i+b_i)]$: when Muon has learnt mode i of M.

    Small modes first, where gradient descent learns large ones first, after about
    $\log(1/\alpha)/s_i$. The arguments are those of `muon_singular_values`.
    """
    a, b, s = _modes(M, params)
    # (4s − 4ab) / (√ + a + b) / 2, without the cancellation.
    return 2 * (s - a * b) / (np.sqrt((a - b) ** 2 + 4 * s) + a + b)


def _modes(M: ArrayLike, params: Mapping[str, ArrayLike]) -> tuple[np.ndarray, ...]:
    """a, b and s of aligned layers; a ValueError that says what is not aligned."""
    target = checks.array("M", M, ndim=(2,))
    if not isinstance(params, Mapping) or set(params) != {"W1", "W2"}:
        raise ValueError(f"params must be W1 and W2 of a two-layer net, got {params!r:.80}")
    W1 = checks.array("params['W1']", params["W1"], shape=(target.shape[0], None))
    W2 = checks.array("params['W2']", params["W2"], shape=(W1.shape[1], target.shape[1]))
    U, s, Vt = np.linalg.svd(target, full_matrices=False)
    rank = int(np.sum(s > 1e-12 * s.max(initial=0.0)))
    if rank == 0:
        raise ValueError("M must not be zero")
    U = U[:, :rank]
    s = s[:rank]
    V = Vt[:rank].T
    rows = U.T @ W1
    a = np.linalg.norm(rows, axis=1)
    if np.any(a == 0):
        raise ValueError("params['W1'] must see every singular vector of M, got one it does not")
    hidden = (rows / a[:, None]).T
    b = np.einsum("hi,hi->i", hidden, W2 @ V)
    for name, W, aligned in (("W1", W1, (U * a) @ hidden.T), ("W2", W2, (hidden * b) @ V.T)):
        size = np.linalg.norm(W)
        off = np.linalg.norm(W - aligned) / (size if size > 0 else 1.0)
        if off > ALIGNED:
            raise ValueError(
                f"params[{name!r}] must be aligned with M, got a part of {off:.1e} that is not"
            )
    if np.linalg.norm(hidden.T @ hidden - np.eye(rank)) > ALIGNED:
        raise ValueError("params['W1'] must be aligned with M, got hidden vectors that overlap")
    if np.any(b <= 0) or np.any(a * b >= s):
        raise ValueError("params must have a, b > 0 and a·b < s in every mode of M")
    return a, b, s
