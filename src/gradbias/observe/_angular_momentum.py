"""The angular momentum of a step: what rotations of a hidden space conserve under momentum."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..nets import Net
from ..nets.base import ChainNet
from ..numerics import checks


def angular_momentum(
    net: Net, before: Mapping[str, ArrayLike], after: Mapping[str, ArrayLike]
) -> dict[str, np.ndarray]:
    r"""J of the step between two successive states, one antisymmetric matrix for each hidden layer.

    $J = \frac{1}{2}(M - M^\top)$ with $M = W_1^\top d_1 - d_2W_2^\top$, where d are the
    differences of the layers and W those before the step (those after give the same J). Heavy ball
    multiplies it by β in every step, whatever the batch.

    Args:
        net: a product of matrices, such as `gb.TwoLayer`.
        before: its parameters.
        after: those one step later, as `gb.observe.params` records them.

    Returns:
        (h, h) matrices, by the names of the layers that meet: "W1-W2".
    """
    if not isinstance(net, ChainNet) or net.shapes() is None:
        raise ValueError(
            f"net must be a product of matrices, such as gb.TwoLayer, got {type(net).__name__}"
        )
    states = [_factors(net, name, p) for name, p in (("before", before), ("after", after))]
    steps = [new - old for old, new in zip(*states, strict=True)]
    old = states[0]
    found = {}
    for k in range(len(old) - 1):
        moved = old[k].T @ steps[k] - steps[k + 1] @ old[k + 1].T
        found[f"W{k + 1}-W{k + 2}"] = (moved - moved.T) / 2
    return found


def _factors(net: ChainNet, what: str, params: Mapping[str, ArrayLike]) -> list[np.ndarray]:
    shapes = net.shapes() or {}
    if not isinstance(params, Mapping) or set(params) != set(shapes):
        raise ValueError(f"{what} must have the parameters {sorted(shapes)}, got {params!r:.80}")
    arrays = {n: checks.array(f"{what}[{n!r}]", params[n], shape=s) for n, s in shapes.items()}
    return [np.asarray(factor) for factor in net.factors(arrays)]
