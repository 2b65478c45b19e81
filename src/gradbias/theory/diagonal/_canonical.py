"""Predictors as parameters: the canonical ones, and how far a point is from them."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from .._problem import Params
from ._fits import halves


def canonical(w: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """ψ(w) = (√[w]₊, √[−w]₊), Definition D.5: of all (u, v) with u² − v² = w the smallest.

    If the weighted ℓ1 problem has one solution w, the minimisers of R on the manifold's closure
    are ψ(w) and its sign flips alone (Lemma D.6).
    """
    w = checks.array("w", w, ndim=(1,))
    return np.sqrt(np.maximum(w, 0.0)), np.sqrt(np.maximum(-w, 0.0))


def distance_to_canonical(params: Params, w: ArrayLike) -> float:
    """The distance of (u, v) from ψ(w), up to the sign of each coordinate."""
    top, bottom = canonical(w)
    u, v = halves(len(top), params)
    return float(np.hypot(np.linalg.norm(abs(u) - top), np.linalg.norm(abs(v) - bottom)))


def escape_potential(params: Params, w: ArrayLike, vanishing: ArrayLike) -> float:
    """φ = Σ w_j(ln u_j² [w_j > 0] − ln v_j² [w_j < 0]) over coordinates that vanish at a point.

    The potential in the proof of Lemma 6.5: −∞ at a stationary point of the limiting flow where
    `vanishing` coordinates are zero, and, if w is a better predictor than that point's, growing
    along the flow near it. So the flow does not end there.

    Args:
        params: u and v, (d,) each.
        w: (d,) the better predictor, the minimiser of the weighted ℓ1 norm.
        vanishing: (d,) booleans.
    """
    w = checks.array("w", w, ndim=(1,))
    u, v = halves(len(w), params)
    off = checks.array("vanishing", vanishing, shape=w.shape) != 0
    half = np.where(w > 0, u, v)
    used = off & (w != 0)
    with np.errstate(divide="ignore"):
        return float(np.sum(np.abs(w[used]) * 2 * np.log(np.abs(half[used]))))
