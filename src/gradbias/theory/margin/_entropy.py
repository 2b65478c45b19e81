"""The entropy gap of weights."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks


def entropy_gap(p: ArrayLike) -> float:
    """−Σp log p + log max p: Shannon's entropy less the min-entropy; 0 where all p > 0 are equal.

    Args:
        p: weights, not negative, of sum one; any shape.
    """
    weights = checks.array("p", p).ravel()
    if weights.size == 0 or weights.min() < 0 or abs(weights.sum() - 1) > 1e-9:
        raise ValueError(f"p must hold weights that are not negative and of sum one, got {p!r:.80}")
    positive = weights[weights > 0]
    return max(float(-np.sum(positive * np.log(positive)) + np.log(positive.max())), 0.0)
