"""A copy of a model to measure on."""

import copy
from typing import TypeVar

from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def duplicate(model: M) -> M:
    """A deep copy, also of modules that keep computed tensors, as the older weight_norm does.

    Torch does not copy a tensor with a graph; the module computes it again at its next call.
    """
    memo: dict[int, object] = {}
    for module in model.modules():
        for value in vars(module).values():
            for tensor in value if isinstance(value, list) else [value]:
                if isinstance(tensor, Tensor) and not tensor.is_leaf:
                    memo[id(tensor)] = tensor.detach().clone()
    return copy.deepcopy(model, memo)
