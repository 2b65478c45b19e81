"""The largest singular value of a weight, by products with it alone."""

import math

import numpy as np
import torch

from .curvature import TopEigenpair, first_vector, top_eigenpair
from .undisturbed import precise

TOLERANCE = 1e-5  # of the residual: the value is then right to about its square
BASIS = 40  # vectors that are kept at a time
PRODUCTS = 2000


class WeightGram:
    """WᵀW or WWᵀ, whichever is smaller.

    Args:
        weight: a matrix, or a tensor that is flattened to one with as many rows.
    """

    def __init__(self, weight: torch.Tensor):
        matrix = precise(weight.detach()).flatten(1)
        self._matrix = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
        self.size = self._matrix.shape[1]

    def __matmul__(self, vector: torch.Tensor) -> torch.Tensor:
        return self._matrix.T @ (self._matrix @ vector)

    def like(self, values: np.ndarray) -> torch.Tensor:
        """A vector of these numbers, as precise as the products are."""
        return torch.as_tensor(values).to(self._matrix)


def spectral_norm(
    weight: torch.Tensor, start: torch.Tensor | None = None
) -> tuple[float, torch.Tensor | None]:
    """σ_max, and the singular vector to start from next time; nan where it is not finite.

    Args:
        weight: of two axes or more.
        start: that of an earlier call.
    """
    size = float(weight.detach().abs().max()) if weight.numel() else 0.0
    if size == 0 or not math.isfinite(size):
        return (0.0 if size == 0 else math.nan), None
    gram = WeightGram(precise(weight.detach()) / size)  # or squares of small weights would vanish
    vector = first_vector(gram, start, 0)
    turns = (2 if start is None else 10, min(gram.size, BASIS), PRODUCTS)
    found: TopEigenpair = top_eigenpair(gram, vector, TOLERANCE, turns)
    return size * math.sqrt(max(found.value, 0.0)), found.vector
