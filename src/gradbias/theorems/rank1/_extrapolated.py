"""What runs at several small parameters show of zero."""

import numpy as np
from numpy.typing import ArrayLike

from ..prelude import Measured, measured


def extrapolated(small: ArrayLike, values: ArrayLike, own: float, order: int = 0) -> Measured:
    """The coefficient of `order` of values (k, …) as a polynomial in k small parameters.

    Its error is what the polynomial of one degree less, through all but the largest parameter,
    says otherwise.

    Args:
        small: the parameters, falling.
        values: what was measured at each of them.
        own: the error of each value.
        order: 0 for the limit, 1 for the slope there.
    """
    x = np.asarray(small, dtype=np.float64)
    y = np.asarray(values, dtype=np.float64)
    best, fewer = (_coefficient(x[i:], y[i:], order) for i in (0, 1))
    noise = 10 * own / x[-1] ** order
    return measured(best, error=float(np.linalg.norm(best - fewer)) + noise)


def _coefficient(x: np.ndarray, y: np.ndarray, order: int) -> np.ndarray:
    scaled = x / x[0]
    rows = np.linalg.solve(np.vander(scaled, increasing=True), y.reshape(len(x), -1))
    return np.reshape(rows[order] / x[0] ** order, y.shape[1:])
