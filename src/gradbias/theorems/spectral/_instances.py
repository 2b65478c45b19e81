"""Instances that the theorems share.

Few shapes, because each one compiles: flow and descent with several outputs, flow with one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...dynamics import Descent, Dynamics, Flow
from ...init import orthogonal
from ...nets import TwoLayer
from ...numerics.host_rng import generator
from ...problems import Regression
from ..prelude import Setup, Until


class TwoLayerSizes(NamedTuple):
    """Of an instance.

    Attributes:
        d: inputs.
        n: samples, fewer.
        k: outputs, no more than samples.
        width: hidden units, at least as many as inputs.
    """

    d: int
    n: int
    k: int
    width: int


SIZES = (TwoLayerSizes(5, 3, 2, 7), TwoLayerSizes(7, 5, 3, 9), TwoLayerSizes(6, 2, 2, 6))
D, N, K, WIDTH = SIZES[0]  # of what is looked at without a run
SAVES = 24
TIMES = np.concatenate([[0.0], np.geomspace(3e-2, 1e3, SAVES - 1)])
STEPS = np.concatenate([[0], np.round(np.geomspace(10, 20_000, SAVES - 1))])
LR = 0.02


def sizes(key: int) -> TwoLayerSizes:
    """The sizes of this instance."""
    return SIZES[key % len(SIZES)]


def draws(key: int) -> np.random.Generator:
    """The random numbers of an instance."""
    return generator(key, "theorems.spectral")


def frame(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Orthonormal columns."""
    return np.linalg.qr(rng.standard_normal((size, count)))[0]


def regression(
    key: int, k: int | None = None, whitened: bool = False, like: TwoLayerSizes | None = None
) -> Regression:
    """Data with singular values near 1, labels of a predictor with distinct ones from 2 to 1."""
    d, n, most, _ = sizes(key) if like is None else like
    k = most if k is None else k
    rng = draws(key)
    s = np.full(n, 1.2) if whitened else rng.uniform(0.7, 1.4, n)
    V = frame(rng, d, n)
    X = frame(rng, n, n) @ (s[:, None] * V.T)
    sigma = np.linspace(2.0, 1.0, k) * rng.uniform(0.85, 1.15, k)
    beta = V @ (frame(rng, n, k) * sigma) @ frame(rng, k, k).T
    return Regression(X, X @ beta, rng.uniform(0.3, 0.7))


def draw_gamma(key: int) -> float:
    """A scale between rich and lazy."""
    return float(draws(key + 1).uniform(0.2, 0.5))


def flow(
    key: int,
    k: int | None = None,
    whitened: bool = False,
    gamma: float | None = None,
    params: dict[str, np.ndarray] | None = None,
    dynamics: Dynamics | None = None,
    until: Until | None = None,
    save_at: ArrayLike | None = None,
) -> Setup:
    """A flow from I_γ to its end, or the same with one thing changed."""
    d, _, most, width = sizes(key)
    net = TwoLayer(d, most if k is None else k, width)
    start = orthogonal(net, gamma or draw_gamma(key), key=key) if params is None else params
    return Setup(
        regression(key, k, whitened),
        net,
        start,
        Flow(rtol=1e-12) if dynamics is None else dynamics,
        until=Until(gap=1e-24, time=TIMES[-1]) if until is None else until,
        save_at=TIMES if save_at is None else save_at,
        key=key,
    )


def descent(key: int, lr: float = LR, momentum: float = 0.0, **changes: Any) -> Setup:
    """Gradient descent on the same problems."""
    return flow(
        key,
        dynamics=Descent(lr, momentum=momentum),
        until=Until(gap=1e-24, steps=int(STEPS[-1])),
        save_at=STEPS,
        **changes,
    )


def first_layer(key: int, root: np.ndarray, k: int | None = None) -> dict[str, np.ndarray]:
    """W1 = root · P with PPᵀ = I, and W2 = 0."""
    d, _, most, width = sizes(key)
    P = frame(draws(key + 2), width, d).T
    return {"W1": root @ P, "W2": np.zeros((width, most if k is None else k))}


def anisotropic(key: int, k: int | None = None, whitened: bool = False) -> Setup:
    """The control of the isotropic imbalance: W1W1ᵀ has eigenvalues from 0.1 to 1.8."""
    d = sizes(key).d
    Q = frame(draws(key + 3), d, d)
    root = (Q * np.sqrt(np.linspace(0.1, 1.8, d))) @ Q.T
    return flow(key, k, whitened, params=first_layer(key, root, k))


def starved(key: int, k: int | None = None) -> Setup:
    """The control of the rates: nearly all of W1 lies where the data see nothing."""
    V = regression(key, k).row_space
    row_space = V @ V.T
    root = np.sqrt(2 * draw_gamma(key)) * (np.eye(len(V)) - row_space + 1e-9 * row_space)
    return flow(key, k, params=first_layer(key, root, k))


def second_layer(key: int) -> Setup:
    """The control of W2(0) = 0: the first layer is that of I_γ, the second is random."""
    d, _, k, width = sizes(key)
    start = orthogonal(TwoLayer(d, k, width), draw_gamma(key), key=key)
    start["W2"] = 0.5 * draws(key + 4).standard_normal((width, k))
    return flow(key, params=start)


def nothing(key: int) -> Setup:
    """Both layers zero: γ = 0."""
    d, _, k, width = sizes(key)
    params = {"W1": np.zeros((d, width)), "W2": np.zeros((width, k))}
    return flow(key, params=params)


# Of the paper's Figure 1.
PAPER = TwoLayerSizes(10, 5, 3, 200)
PAPER_GAMMA = 1.0


def paper(key: int, k: int = PAPER.k, whitened: bool = False) -> Setup:
    """Figure 1 (a): Gaussian data and labels of a Gaussian predictor, at the paper's size."""
    rng = draws(key + 51)
    X = rng.standard_normal((PAPER.n, PAPER.d)) / np.sqrt(PAPER.n)
    if whitened:
        X = frame(rng, PAPER.d, PAPER.n).T
    problem = Regression.half_sum(X, X @ rng.standard_normal((PAPER.d, k)))
    net = TwoLayer(PAPER.d, k, PAPER.width)
    return Setup(
        problem,
        net,
        orthogonal(net, PAPER_GAMMA, key=key),
        Flow(rtol=1e-12),
        until=Until(gap=1e-24, time=TIMES[-1]),
        save_at=TIMES,
        key=key,
    )


def paper_whitened(key: int) -> Setup:
    """The same on whitened data."""
    return paper(key, whitened=True)


def paper_one_output(key: int) -> Setup:
    """The same with one output."""
    return paper(key, k=1)
