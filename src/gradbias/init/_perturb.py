"""Near a given start: the rank-1 paper's imbalance Δ, and plain random noise."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..nets import Net, Rank1
from ..numerics import checks
from ..numerics.linalg import norm
from ._params import Params, each, given, is_net, shapes_of
from ._random import standard


def perturb(net: Net, params: Mapping[str, ArrayLike], delta: float) -> Params:
    r"""A Rank1 start with pair imbalance `delta` and an unchanged predictor.

    $\Delta = \frac{1}{2L-1}\sum_k \frac{\|v[k]\|^2 - \|u[k]\|^2}{\|u[k]\|^2}$ is set by
    v ← (1 + ε)v, the same ε for all pairs; then all parameters shrink by one factor, so that Θ
    is what it was and Δ is not confounded with the scale. Nothing is drawn.

    Args:
        net: Rank1 with at least two layers.
        params: the parameters to start from, balanced or not.
        delta: the value of Δ, above −(L − 1)/(2L − 1), where v would vanish.
    """
    is_net(net)
    if not isinstance(net, Rank1) or net.depth < 2:
        raise ValueError(
            "net must be Rank1 with a depth of at least 2 for init.perturb, got "
            + (f"depth {net.depth}" if isinstance(net, Rank1) else type(net).__name__)
        )
    start = given(net, params)
    pairs = net.depth - 1
    factors = 2 * net.depth - 1
    delta = checks.number("delta", delta, above=-pairs / factors)
    growth = np.sqrt((factors * delta + pairs) / _norm_ratios(start))
    shrink = growth ** (-pairs / factors)
    start["v"] *= growth
    return {name: shrink * value for name, value in start.items()}


def jitter(
    net: Net, params: Mapping[str, ArrayLike], std: float | Mapping[str, float], key: int = 0
) -> Params:
    """Add independent N(0, std²) numbers to parameters.

    Args:
        net: any net that knows its shapes.
        params: the parameters to start from.
        std: for every parameter, biases included, or {name: std} for the named ones only.
        key: an integer; the same key gives the same draws, whatever the std.
    """
    shapes = shapes_of(net)
    named = frozenset(shapes) if isinstance(std, Mapping) else frozenset()
    stds = each("std", std, shapes, named, at_least=0)
    draws = standard(net, key, "init.jitter")
    return {name: value + stds[name] * draws[name] for name, value in given(net, params).items()}


def _norm_ratios(params: Params) -> float:
    """Σ_k ‖v[k]‖²/‖u[k]‖², from norms that do not square tiny numbers to zero."""
    u, v = (np.array([norm(row) for row in params[name]]) for name in "uv")
    if not u.all() or not v.any():
        raise ValueError("params must have no zero row in u, and not all of v zero: Δ needs both")
    return float(np.sum((v / u) ** 2))
