"""Balanced inits: every layer carries the same share of the predictor."""

import functools
import itertools

import numpy as np
from numpy.typing import ArrayLike

from ..nets import Deep, Net, Rank1, TwoLayer
from ..numerics import checks
from ..numerics.host_rng import generator
from ..numerics.linalg import SVD, norm, rank_threshold
from ..problems import QuadraticProblem
from ._orthogonal import random_frame
from ._params import Params, is_net

# A factorisation whose product misses theta0 by more than this, relatively, is refused.
PRODUCT_TOLERANCE = 1e-12


def balanced(
    net: Net,
    theta0: ArrayLike,
    key: int = 0,
    problem: QuadraticProblem | None = None,
    signs: ArrayLike | None = None,
) -> Params:
    r"""Zero imbalance, and a predictor that is exactly `theta0`.

    Rank1: $\|v_1\| = \|u[k]\| = \|v[k]\| = \|\theta_0\|^{1/(2L-1)}$ and u[k] ∥ v[k].
    Deep and TwoLayer: $W_k^T W_k = W_{k+1} W_{k+1}^T$ for every k. With `problem`, the first of
    these is asked inside the row space of the data only, $W_1^T P W_1 = W_2 W_2^T$: that is the
    imbalance which sets the speed of gradient flow. Two layers, $M = \Theta_0^T P \Theta_0$ and
    orthonormal Q: $W_1 = \Theta_0 M^{-1/4} Q^T$, $W_2 = Q M^{1/4}$.

    Hidden directions are random; the predictor's path does not depend on them.

    Args:
        net: Rank1, TwoLayer, or Deep of any depth (a single layer is `theta0` itself).
        theta0: (d, k), or (d,) for one output; not zero, which is a saddle.
        key: an integer; the same key gives the same hidden directions.
        problem: balance in its row space, for TwoLayer and Deep. Without it: for the whole layer.
        signs: (L − 1,) of ±1, the alignment of each pair u[k], v[k] of a Rank1 net; default +1.
            v1 absorbs their product.
    """
    is_net(net)
    if not isinstance(net, (Rank1, TwoLayer, Deep)):
        raise ValueError(
            f"net must be Rank1, TwoLayer or Deep for init.balanced, got {type(net).__name__}"
        )
    theta = _predictor(net, theta0)
    rng = generator(key, "init.balanced")
    if isinstance(net, Rank1):
        if problem is not None:
            raise ValueError(
                "problem must be left out for Rank1: being balanced there is a condition on the "
                "norms of whole vectors, v1's part outside the row space included"
            )
        return _rank1(net, theta[:, 0], _signs(net, signs), rng)
    if signs is not None:
        raise ValueError(f"signs must be left out for {type(net).__name__}: only Rank1 has pairs")
    return net.from_factors(_factors(net.chain, theta, _basis(net, problem), rng))


def _predictor(net: Rank1 | TwoLayer | Deep, theta0: ArrayLike) -> np.ndarray:
    d = net.chain[0]
    k = net.chain[-1]
    theta = checks.array("theta0", theta0, ndim=(1, 2) if k == 1 else (2,))
    theta = checks.shaped("theta0", theta, (d, k)[: theta.ndim]).reshape(d, k)
    if not np.isfinite(norm(theta)):
        raise ValueError("theta0 must have a norm within the range of float64, got one beyond it")
    if len(net.chain) > 2 and not theta.any():
        raise ValueError("theta0 must not be zero: balanced layers are then all zero, a saddle")
    return theta


def _signs(net: Rank1, signs: ArrayLike | None) -> np.ndarray:
    if signs is None:
        return np.ones(net.depth - 1)
    values = checks.array("signs", signs, shape=(net.depth - 1,))
    if not (np.abs(values) == 1).all():
        raise ValueError(f"signs must be +1 or -1, got {values.tolist()!r:.80}")
    return values


def _rank1(net: Rank1, theta: np.ndarray, signs: np.ndarray, rng: np.random.Generator) -> Params:
    length = norm(theta)
    scale = length ** (1 / (2 * net.depth - 1))
    directions = rng.standard_normal((net.depth - 1, net.width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return {
        "v1": signs.prod() * scale * (theta / (length or 1.0)),
        "u": scale * directions,
        "v": signs[:, None] * scale * directions,
    }


def _basis(net: TwoLayer | Deep, problem: QuadraticProblem | None) -> np.ndarray | None:
    """The row space in which the first layer is to be balanced; None for the whole space."""
    if problem is None:
        return None
    if not isinstance(problem, QuadraticProblem):
        raise ValueError(
            "problem must have a row space (Regression or Population), "
            f"got {type(problem).__name__}"
        )
    d = net.chain[0]
    k = net.chain[-1]
    if (problem.d, problem.k) != (d, k):
        raise ValueError(
            f"problem must have d = {d} inputs and k = {k} outputs like the net, "
            f"got d = {problem.d} and k = {problem.k}"
        )
    return problem.row_space


def _factors(
    chain: tuple[int, ...], theta: np.ndarray, basis: np.ndarray | None, rng: np.random.Generator
) -> list[np.ndarray]:
    """Share the singular values of the seen part of theta equally, through random frames.

    With the seen part $PΘ_0 = U s R^T$: $W_1 = (U s^{1/N} + (Θ_0 - PΘ_0) R s^{1/N-1}) Q_1^T$,
    $W_k = Q_{k-1} s^{1/N} Q_k^T$, $W_N = Q_{N-1} s^{1/N} R^T$.
    """
    layers = len(chain) - 1
    if layers == 1:
        return [theta]
    seen = theta if basis is None else basis @ (basis.T @ theta)
    U, s, Rt = _numerical_svd(seen, theta)
    _wide_enough(chain[1:-1], len(s))
    frames = [random_frame(rng, width, len(s)) for width in chain[1:-1]]
    share = s ** (1 / layers)
    first = U * share
    if basis is not None:
        first += ((theta - seen) @ Rt.T) * (share / s)
    middle = [(a * share) @ b.T for a, b in itertools.pairwise(frames)]
    factors = [first @ frames[0].T, *middle, (frames[-1] * share) @ Rt]
    if basis is not None:
        _check_product(theta, factors, basis.shape[1], len(s))
    return factors


def _numerical_svd(seen: np.ndarray, theta: np.ndarray) -> SVD:
    """The part of `seen` above the rounding of `theta`, of which it is a projection."""
    U, s, Rt = np.linalg.svd(seen, full_matrices=False)
    top = s if seen is theta else np.linalg.svd(theta, compute_uv=False)
    r = int(np.sum(s > rank_threshold(top, theta.shape)))
    return SVD(U[:, :r], s[:r], Rt[:r])


def _wide_enough(widths: tuple[int, ...], rank: int) -> None:
    if min(widths) < rank:
        raise ValueError(
            f"net must have hidden widths of at least {rank}, the rank of what they share, "
            f"to be balanced, got {', '.join(map(str, widths))}"
        )


def _check_product(theta: np.ndarray, factors: list[np.ndarray], rank: int, seen_rank: int) -> None:
    """Refuse a theta0 that cannot be had: what is unseen must hang on what is seen."""
    product = functools.reduce(lambda right, left: left @ right, reversed(factors))
    missed = norm(theta - product) / norm(theta)
    if missed > PRODUCT_TOLERANCE:
        raise ValueError(
            "theta0 has no balanced factorisation in the problem's row space: for some "
            "combination of outputs it lies outside of that space, or as good as. Its part "
            f"inside has rank {seen_rank} (row space: {rank}, outputs: {theta.shape[1]}), and "
            f"{missed:.3g} of its norm would be lost. Needed: theta0 x = 0 for every x that its "
            "part inside maps to 0. Leave problem out to balance the whole layer."
        )
