"""A wide net in the few combinations of its hidden units that ever learn.

Rotating the hidden units of a product of matrices changes neither its predictor nor any step.
Between factors F and F' all motion is in the span of the rows of F and the columns of F', so a
rotation makes every other unit zero, and zero it stays: without these the run is the same. A
theorem whose words do not name single units can be read there, whatever the width.
"""

from typing import Any

import numpy as np

from .._setup import Setup
from ..dynamics import Descent, Diffusion, Flow
from ..nets import ChainNet, Deep, Rank1, TwoLayer
from . import _common as common
from ._facts import fact

WIDE = 64  # hidden units up to which matrices of them are looked at as they are


@fact
def narrow(setup: Setup) -> Setup | None:
    """The same run of a narrow net; None where the net is not wide, or units are not alike.

    It records nothing but what is asked of it: say so with `replace`.
    """
    moves, net = setup.dynamics, setup.net
    if type(moves) not in (Flow, Descent, Diffusion) or not common.sees_data_only(setup):
        return None
    if type(net) not in (TwoLayer, Deep, Rank1):
        return None
    assert isinstance(net, ChainNet)
    if max(net.chain[1:-1], default=0) <= WIDE:
        return None
    factors = [np.asarray(factor) for factor in net.factors(setup.params)]
    turned = _turned(factors)
    if [f.shape for f in turned] == [f.shape for f in factors]:
        return None
    small = _net(net, turned)
    return setup.replace(net=small, params=small.from_factors(turned))


def _turned(factors: list[np.ndarray]) -> list[np.ndarray]:
    """The factors with every wide seam in a basis of what its two sides span."""
    turned = list(factors)
    for k in range(1, len(turned)):
        left, right = turned[k - 1], turned[k]
        span = left.shape[0] + right.shape[1]
        if left.shape[1] > max(WIDE, span):
            Q = np.linalg.qr(np.concatenate([_unit(left.T), _unit(right)], axis=1))[0]
            turned[k - 1], turned[k] = left @ Q, Q.T @ right
    return turned


def _unit(columns: np.ndarray) -> np.ndarray:
    """Divided by the largest entry: layers of 1e-200 and of 1 have a common basis."""
    largest = np.abs(columns).max(initial=0.0)
    return columns / largest if largest > 0 else columns


def _net(net: Any, factors: list[np.ndarray]) -> ChainNet:
    if isinstance(net, TwoLayer):
        return TwoLayer(net.d, net.k, factors[0].shape[1])
    if isinstance(net, Rank1):
        return Rank1(net.d, net.depth, factors[1].shape[1])
    return Deep([factors[0].shape[0], *(factor.shape[1] for factor in factors)])
