"""The same number everywhere."""

from collections.abc import Mapping

import numpy as np

from ..nets import Net
from ._params import Params, biases_of, each, shapes_of


def constant(net: Net, value: float | Mapping[str, float]) -> Params:
    """Every entry equal: the u = v = C·1 of diagonal nets, which starts at Θ = 0.

    Args:
        net: any net that knows its shapes.
        value: a number, or {name: number} with one for every parameter. The biases of an MLP
            are 0 unless they are named.
    """
    shapes = shapes_of(net)
    values = each("value", value, shapes, biases_of(net))
    return {name: np.full(shape, values[name]) for name, shape in shapes.items()}
