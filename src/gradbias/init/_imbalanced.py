"""Imbalance without a change of predictor."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..nets import Deep, Net, TwoLayer
from ..numerics import checks
from ._params import Params, given, is_net


def imbalanced(net: Net, params: Mapping[str, ArrayLike], factor: float, layer: int = 1) -> Params:
    """Move scale from one layer to the next: W ← factor·W, the next one ← next/factor.

    The predictor stays; the imbalance of the pair, conserved by gradient flow, changes. From
    Gaussian layers of std .1 and .1, factor 5 gives .5 and .02, and factor ½ gives .05 and .2.

    Args:
        net: TwoLayer, or Deep with at least two layers.
        params: the parameters to start from.
        factor: above 0; 1 changes nothing.
        layer: the first layer of the pair: 1 for W1 and W2.
    """
    is_net(net)
    layers = len(net.chain) - 1 if isinstance(net, (TwoLayer, Deep)) else 0
    if layers < 2:
        raise ValueError(
            "net must be TwoLayer, or Deep with at least two layers, for init.imbalanced, "
            f"got {type(net).__name__}"
        )
    result = given(net, params)
    factor = checks.number("factor", factor, above=0)
    first = checks.integer("layer", layer, at_least=1)
    if first >= layers:
        raise ValueError(f"layer must be less than the {layers} layers of the net, got {first}")
    try:
        with np.errstate(over="raise", under="raise"):
            result[f"W{first}"] = result[f"W{first}"] * factor
            result[f"W{first + 1}"] = result[f"W{first + 1}"] / factor
    except FloatingPointError:
        raise ValueError(
            f"factor must keep the layers within the range of float64, got {factor}"
        ) from None
    return result
