"""Instances of three sizes, and wide nets of two.

Few shapes and one record, because each new one compiles. Labels cannot be fitted exactly, data
have more samples than their rank, and the weight of the loss is no paper's: what holds here does
not hang on a convention.
"""

from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from ... import observe
from ...dynamics import Descent, Dynamics, Flow
from ...init import inverse_width
from ...nets import TwoLayer
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory.imbalance import balanced_two_layer, invariant_projection
from ..prelude import Setup, Until


class FactorSizes(NamedTuple):
    """Of an instance.

    Attributes:
        D: inputs.
        n: samples, more than the rank.
        r: rank of the data.
        m: outputs, at most the rank.
        width: hidden units, at least m + r.
    """

    D: int
    n: int
    r: int
    m: int
    width: int


SIZES = (FactorSizes(7, 5, 3, 2, 8), FactorSizes(6, 7, 4, 1, 9), FactorSizes(9, 6, 4, 3, 10))
# Wide enough for Lemma 1 and Theorem 2 at δ = 0.1, with data of rank two.
WIDE = (TwoLayer(3, 1, 400), TwoLayer(4, 2, 700))
SAVES = 24
TIMES = np.concatenate([[0.0], np.geomspace(1e-2, 300.0, SAVES - 1)])
STEPS = np.concatenate([[0], np.round(np.geomspace(30, 30_000, SAVES - 1))]).astype(int)


def pull(problem, net, params):
    """The gradient of the loss in both layers, by automatic differentiation."""
    return jax.grad(lambda p: problem.net_loss(net, p))(params)


RECORD = {
    "loss": observe.loss,
    "theta": observe.theta,
    "params": observe.params,
    "pull": pull,
}


def sizes(key: int) -> FactorSizes:
    """The sizes of this instance."""
    return SIZES[key % len(SIZES)]


def draws(key: int, what: str = "theorems.imbalance") -> np.random.Generator:
    """The random numbers of an instance."""
    return generator(key, what)


def frame(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Orthonormal columns."""
    return np.linalg.qr(rng.standard_normal((size, count)))[0]


def regression(
    key: int, r: int | None = None, whitened: bool = False, weight: float | None = None
) -> Regression:
    """Data of rank r, labels of which a part cannot be fitted."""
    D, n, rank, m, _ = sizes(key)
    r = rank if r is None else r
    rng = draws(key)
    sigma = np.full(r, 1.1) if whitened else np.sort(rng.uniform(0.8, 1.25, r))[::-1]
    W = frame(rng, n, n)
    X = W[:, :r] @ (sigma[:, None] * frame(rng, D, r).T)
    B = frame(rng, r, min(r, m)) * rng.uniform(0.6, 1.2, min(r, m)) @ frame(rng, m, m)[:r]
    Y = W[:, :r] @ B + 0.3 * W[:, r:] @ rng.standard_normal((n - r, m))
    drawn = float(rng.uniform(0.4, 0.7))
    return Regression(X, Y, drawn if weight is None else weight)


def gaussian(key: int, first: float = 0.8, second: float = 0.8) -> dict[str, np.ndarray]:
    """Independent entries of these standard deviations."""
    D, _, _, m, width = sizes(key)
    rng = draws(key, "theorems.imbalance start")
    return {
        "W1": first * rng.standard_normal((D, width)),
        "W2": second * rng.standard_normal((width, m)),
    }


def tight_flow(decay: float = 0.0) -> Flow:
    """Gradient flow, integrated nearly to rounding."""
    return Flow(rtol=1e-12, atol=1e-14, weight_decay=decay)


def setup(
    key: int,
    params: dict[str, np.ndarray] | None = None,
    dynamics: Dynamics | None = None,
    problem: Regression | None = None,
    decay: float = 0.0,
    until: Until | None = None,
    save_at: ArrayLike | None = None,
) -> Setup:
    """A flow from a Gaussian start to its end, or the same with one thing changed."""
    dynamics = tight_flow(decay) if dynamics is None else dynamics
    steps = isinstance(dynamics, Descent)
    last = Until(STEPS[-1], gap=1e-25) if steps else Until(time=TIMES[-1], gap=1e-25)
    saves = STEPS if steps else TIMES
    return Setup(
        regression(key) if problem is None else problem,
        TwoLayer(sizes(key).D, sizes(key).m, sizes(key).width),
        gaussian(key) if params is None else params,
        dynamics,
        until=last if until is None else until,
        record=RECORD,
        save_at=saves if save_at is None else save_at,
        key=key,
    )


def decaying(key: int) -> Setup:
    """Weight decay, which moves all that should stay."""
    return setup(key, decay=0.02)


def orthogonal_rows(key: int, size: float = 1.0) -> Setup:
    """U1Vᵀ = 0: the second layer avoids what the first one uses."""
    problem = regression(key)
    params = gaussian(key, 0.8 * size, 0.8 * size)
    used = np.linalg.qr(params["W1"].T @ problem.row_space)[0]
    params["W2"] = params["W2"] - used @ (used.T @ params["W2"])
    return setup(key, params, problem=problem)


def rich_or_lazy(key: int) -> Setup:
    """Every other start is large and starts at zero: there bounds are nearly reached."""
    return setup(key) if key % 2 else orthogonal_rows(key, size=6.0)


def descent(key: int, lr: float) -> Setup:
    """Gradient descent with this step."""
    return setup(key, dynamics=Descent(lr))


def projected(key: int) -> Setup:
    """A start on the invariant set of Proposition 1."""
    problem = regression(key)
    return setup(key, invariant_projection(problem, gaussian(key)), problem=problem)


def unseen(problem: Regression) -> np.ndarray:
    """The projection on what the data do not see."""
    return np.eye(problem.d) - problem.row_space @ problem.row_space.T


def off_second(key: int) -> Setup:
    """VU2ᵀ = 0, but not U1U2ᵀ."""
    problem = regression(key)
    start = gaussian(key)
    used = np.linalg.qr(start["W2"])[0]
    outside = unseen(problem) @ start["W1"]
    start["W1"] = start["W1"] - outside @ used @ used.T
    return setup(key, start, problem=problem)


def nothing(key: int) -> Setup:
    """Both layers zero: stationary."""
    return setup(key, {name: 0.0 * w for name, w in gaussian(key).items()})


def predictor(key: int, whitened: bool = False) -> tuple[Regression, np.ndarray]:
    """A problem and a predictor to start from, half of it where the data see nothing."""
    problem = regression(key, whitened=whitened)
    shape = sizes(key).D, sizes(key).m
    away = draws(key, "theorems.imbalance predictor").standard_normal(shape)
    return problem, problem.min_norm + 0.4 * away


def balanced(key: int, whitened: bool = False) -> Setup:
    """A balanced start with a predictor of full rank."""
    problem, theta0 = predictor(key, whitened=whitened)
    width = sizes(key).width
    Q = frame(draws(key, "theorems.imbalance Q"), width, sizes(key).m)
    return setup(key, balanced_two_layer(problem, theta0, width, Q), problem=problem)


def several_outputs(key: int) -> Setup:
    """An instance with more than one output, where V(∞) has several singular values."""
    these = [i for i, size in enumerate(SIZES) if size.m > 1]
    return setup(len(SIZES) * (key // len(these)) + these[key % len(these)])


def wide_net(key: int) -> TwoLayer:
    """The wide net of this instance."""
    return WIDE[key % len(WIDE)]


def wide_data(key: int) -> Regression:
    """Three samples of rank two, well conditioned."""
    rng = draws(key, "theorems.imbalance wide")
    W = frame(rng, 3, 3)
    V = frame(rng, wide_net(key).d, 2)
    X = W[:, :2] @ (np.array([1.1, 1.0])[:, None] * V.T)
    labels = rng.standard_normal((3, wide_net(key).k))
    return Regression.half_sum(X, 0.7 * labels / np.linalg.norm(labels))


def wide(key: int, alpha: float = 0.5, stretch: float = 1.0) -> Setup:
    """A wide Gaussian net with entries of variance h^(−2α), times stretch²."""
    net = wide_net(key)
    start = {n: stretch * w for n, w in inverse_width(net, alpha, key=key).items()}
    until = Until(gap=1e-25, time=float(TIMES[-1]))
    problem = wide_data(key)
    return Setup(problem, net, start, tight_flow(), until, record=RECORD, save_at=TIMES, key=key)


def paper_size(key: int) -> Setup:
    """Figure 1 at its smallest width: 400 inputs, 100 samples, 500 hidden units."""
    rng = draws(key, "theorems.imbalance paper size")
    X = rng.standard_normal((100, 400)) / 20
    Y = X @ (rng.standard_normal((400, 1)) / 20) + 0.01 * rng.standard_normal((100, 1))
    net = TwoLayer(400, 1, 500)
    until = Until(gap=1e-24, time=1e4)
    record = {"loss": observe.loss, "theta": observe.theta, "params": observe.params}
    params = inverse_width(net, 0.5, key=key)
    problem = Regression.half_sum(X, Y)
    return Setup(
        problem, net, params, tight_flow(), until=until, record=record, save_at=[0.0], key=key
    )
