"""A wide net as a narrow one that moves alike: some of its units, and the span of the others.

Rotating the hidden units of a product of matrices changes neither its predictor nor any step.
Between factors F and F' all motion is in the span of the rows of F and the columns of F', so a
rotation makes every other unit zero, and zero it stays: without these the run is the same. A few
units are kept as they are, and only the others rotated: what a theorem says of all units, or of
none, is read there, whatever the width.
"""

import numpy as np

from .._engine.setup import Setup
from ..dynamics import Descent, Diffusion, Flow
from ..nets import ChainNet, Deep, Net, Rank1, TwoLayer
from ..numerics.host_rng import generator
from ..numerics.precision import host, to_numpy
from ..theorems import _shared_hypotheses as common
from ..theorems import fact

WIDE = 64  # hidden units up to which matrices of them are looked at as they are
KEPT = 8  # units of a wide net that are not rotated
ALIKE = 1e-6  # the least size of a unit, of the largest: a rotation would round smaller ones away


@fact
def narrow(setup: Setup) -> Setup | None:
    """The same run of a narrow net; None where the net is not wide, or units are not alike.

    It records nothing but what is asked of it: say so with `replace`.
    """
    moves = setup.dynamics
    net = setup.net
    if type(moves) not in (Flow, Descent, Diffusion) or not common.sees_data_only(setup):
        return None
    if isinstance(moves, Descent) and moves.velocity is not None:
        return None  # it would have to be rotated, too
    if type(net) not in (TwoLayer, Deep, Rank1):
        return None
    assert isinstance(net, ChainNet)
    if max(net.chain[1:-1], default=0) <= WIDE:
        return None
    factors = [np.asarray(factor) for factor in net.factors(setup.params)]
    turned = _turned(factors)
    if all(f.shape == g.shape for f, g in zip(turned, factors, strict=True)):
        return None
    small = _net(net, turned)
    return setup.replace(net=small, params=_parameters(small, turned))


def _turned(factors: list[np.ndarray]) -> list[np.ndarray]:
    """The factors with every wide seam in a basis of what its two sides span."""
    turned = list(factors)
    for k in range(1, len(turned)):
        left = turned[k - 1]
        right = turned[k]
        span = KEPT + left.shape[0] + right.shape[1]
        if left.shape[1] > max(WIDE, span) and _alike(left, right):
            Q = _frame(left, right)
            turned[k - 1] = left @ Q
            turned[k] = Q.T @ right
    return turned


def _alike(left: np.ndarray, right: np.ndarray) -> bool:
    """Is no hidden unit, but those that are zero, far smaller than the largest?"""
    sizes = np.maximum(_relative(left.T), _relative(right))
    return bool(np.all((sizes == 0) | (sizes > ALIKE)))


def _relative(units: np.ndarray) -> np.ndarray:
    sizes = np.abs(units).max(axis=1)
    return sizes / max(float(sizes.max()), np.finfo(float).tiny)


def _frame(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(h, q) orthonormal: some units themselves, then mixtures that span all others."""
    h = left.shape[1]
    kept = np.linspace(0, h - 1, KEPT).astype(int)
    others = np.setdiff1d(np.arange(h), kept)
    columns = np.concatenate([_unit(left.T[others]), _unit(right[others])], axis=1)
    span = np.linalg.qr(columns)[0]
    # Mixed once more: of layers of low rank most columns of a triangle are zero, units are not.
    rng = generator(0, "theorems narrow")
    mixed = np.linalg.qr(rng.standard_normal((span.shape[1], span.shape[1])))[0]
    Q = np.zeros((h, KEPT + span.shape[1]))
    Q[kept, np.arange(KEPT)] = 1.0
    Q[others, KEPT:] = span @ mixed
    return Q


def _unit(columns: np.ndarray) -> np.ndarray:
    """Divided by the largest entry: layers of 1e-200 and of 1 have a common basis."""
    largest = np.abs(columns).max(initial=0.0)
    return columns / largest if largest > 0 else columns


@host
def _parameters(net: ChainNet, factors: list[np.ndarray]) -> dict[str, np.ndarray]:
    return to_numpy(net.from_factors(factors))


def _net(net: Net, factors: list[np.ndarray]) -> ChainNet:
    if isinstance(net, TwoLayer):
        return TwoLayer(net.d, net.k, factors[0].shape[1])
    if isinstance(net, Rank1):
        return Rank1(net.d, net.depth, factors[1].shape[1])
    return Deep([factors[0].shape[0], *(factor.shape[1] for factor in factors)])
