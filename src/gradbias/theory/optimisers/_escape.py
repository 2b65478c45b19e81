"""Sign descent on products of scalars: linear growth, where gradient descent is exponential."""

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from ...numerics import checks


def signed_product(start: ArrayLike, t: ArrayLike) -> np.ndarray:
    r"""$|w(t)| = \prod_i(|u_i(0)| + t)$ of w = Πu_i under sign descent, while it grows.

    At t = k·lr; exact for steps, too, while the gradient keeps its sign and w has the sign of
    descent.

    Args:
        start: u_i(0), none of them zero.
        t: times.

    Returns:
        |w|, shaped like t.
    """
    u = np.abs(_factors(start))
    times = checks.array("t", t)
    return np.prod(u.reshape(-1, *(1,) * times.ndim) + times, axis=0)


def signed_escape(start: ArrayLike, size: float) -> float:
    """The time at which `signed_product` reaches a size: bounded as the start goes to zero."""
    u = np.abs(_factors(start))
    size = checks.number("size", size, above=0)
    if np.prod(u) >= size:
        return 0.0
    most = size ** (1 / len(u))  # (u + t)… ≥ t^D
    found = scipy.optimize.root_scalar(
        lambda t: np.log(np.prod(u + t) / size), bracket=(0.0, most), xtol=1e-15 * most
    )
    return float(found.root)


def _factors(start: ArrayLike) -> np.ndarray:
    u = checks.array("start", start, ndim=(1,))
    if len(u) == 0 or np.any(u == 0):
        raise ValueError(f"start must be numbers that are not zero, got {u.tolist()}")
    return u
