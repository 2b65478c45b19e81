r"""Rank-1 nets inside deep ones: a sparsity that gradient descent keeps.

A rank-1 net of L layers is a deep net of 2L − 1 factors in which every odd W has one column that is
not zero and the W after it has one row that is not zero, *at the same unit*:

    W1[:, i] = v1,  W2[i, :] = u[0],  W3[:, j] = v[0],  W4[j, :] = u[1], …

Gradients have the same pattern, so GD and SGD stay in it, and the two nets make the same steps.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ._any_start import rank1_params

Params = dict[str, np.ndarray]


def deep_from_rank1(
    params: Mapping[str, ArrayLike], hidden: int | None = None, units: Sequence[int] | None = None
) -> Params:
    """The parameters of a `Deep` net that moves exactly as a rank-1 net does.

    Its sizes are [d, hidden, width, hidden, width, …, 1].

    Args:
        params: v1, u and v of a `Rank1` net of L layers.
        hidden: how many units the layers have that the rank-1 net sees one of; default `width`.
        units: (L − 1,), which one it sees; default the first.
    """
    v1, u, v = rank1_params(params)
    pairs, width = u.shape
    size = width if hidden is None else checks.integer("hidden", hidden, at_least=1)
    chosen = [0] * pairs if units is None else list(units)
    if len(chosen) != pairs or not all(0 <= checks.integer("units", i) < size for i in chosen):
        raise ValueError(f"units must be {pairs} numbers below {size}, got {units!r:.80}")
    columns = [v1, *v]
    result: Params = {}
    for k, (unit, row) in enumerate(zip(chosen, u, strict=True)):
        first = np.zeros((len(columns[k]), size))
        second = np.zeros((size, width))
        first[:, unit] = columns[k]
        second[unit] = row
        result[f"W{2 * k + 1}"] = first
        result[f"W{2 * k + 2}"] = second
    result[f"W{2 * pairs + 1}"] = columns[-1][:, None]
    return result


def rank1_from_deep(params: Mapping[str, ArrayLike]) -> Params:
    """The rank-1 net of a `Deep` net with that sparsity; a ValueError where it has another one.

    Args:
        params: W1, W2, …, an odd number of them, with one output; hidden layers of even number
            have one size.
    """
    count = len(params) if isinstance(params, Mapping) else 0
    if count % 2 == 0 or set(params) != {f"W{i}" for i in range(1, count + 1)}:
        got = sorted(params) if isinstance(params, Mapping) else type(params).__name__
        raise ValueError(f"params must be W1, W2, … of an odd number of layers, got {got}")
    W = [checks.array(f"params['W{i}']", params[f"W{i}"], ndim=(2,)) for i in range(1, count + 1)]
    if W[-1].shape[1] != 1:
        raise ValueError(f"params must have one output, got W{count} of shape {W[-1].shape}")
    columns = []
    rows = []
    for k in range(0, count - 1, 2):
        unit = _one_unit(k + 1, W[k], W[k + 1])
        columns.append(W[k][:, unit])
        rows.append(W[k + 1][unit])
    columns.append(W[-1][:, 0])
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"params must have one width for all pairs, got {[len(r) for r in rows]}")
    shape = (count // 2, len(rows[0]) if rows else 1)
    return {"v1": columns[0], "u": np.reshape(rows, shape), "v": np.reshape(columns[1:], shape)}


def _one_unit(k: int, left: np.ndarray, right: np.ndarray) -> int:
    """The unit between two layers through which alone anything goes."""
    used = np.flatnonzero(np.any(left != 0, axis=0) | np.any(right != 0, axis=1))
    if len(used) > 1:
        raise ValueError(
            f"params must use one unit between W{k} and W{k + 1}, as column and as row, got "
            f"units {used.tolist()!r:.60}"
        )
    return int(used[0]) if len(used) else 0
