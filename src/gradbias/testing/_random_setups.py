"""Random setups, ordinary and degenerate: on none of them may a theorem be refuted."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from .. import init
from .._engine.setup import Setup, Until
from ..dynamics import Descent, Dynamics, Flow
from ..nets import ChainNet, Deep, Diagonal, Net, Rank1, TwoLayer
from ..noise import LabelNoise, Minibatch
from ..numerics import checks
from ..numerics.host_rng import generator
from ..problems import Regression

# inputs, and numbers of samples
D = 4
FEW = 3
MANY = 6
LASTING = Until(steps=3000)  # of noise that never dies out, so that no gap ends the run
RATES = (0.01, 0.02, 0.05)
Draws = np.random.Generator
Params = dict[str, np.ndarray]
T = TypeVar("T")


def random_setups(count: int, key: int = 0) -> list[Setup]:
    """Setups of small nets with default settings, such as a new user tries.

    Nets, starts, dynamics and data are drawn independently of each other. Data are ordinary, or
    degenerate: of low rank, with labels that contradict each other or are zero, with singular
    values that coincide or are far apart. Sizes are few, because each new one compiles.

    Args:
        count: how many.
        key: an integer that decides all of them; the first of 10 are the same as of 100.

    Returns:
        The setups; `gb.check` of none of them should say "refuted".
    """
    count = checks.integer("count", count, at_least=0)
    key = checks.integer("key", key)
    return [_setup(generator(key, f"testing.random_setups {i}"), i) for i in range(count)]


def _setup(rng: Draws, key: int) -> Setup:
    k = int(rng.choice([1, 1, 2]))
    problem = _choice(rng, PROBLEMS)(rng, k)
    nets = [TwoLayer(D, k, 6), TwoLayer(D, k, 2), Deep((D, 5, 5, k))]
    nets += [Rank1(D, 3, 1), Diagonal(D)] if k == 1 else []
    net = _choice(rng, nets)
    starts = _STARTS + ([_balanced, _towards] if isinstance(net, ChainNet) else [])
    starts = starts + ([_orthogonal] * 2 if isinstance(net, TwoLayer) and net.width >= D else [])
    params = _choice(rng, starts)(rng, net, problem)
    dynamics = _choice(rng, DYNAMICS)(rng)
    lasts = dynamics.noise is not None if isinstance(dynamics, Descent) else False
    return Setup(problem, net, params, dynamics, LASTING if lasts else None, key=key)


def _choice(rng: Draws, options: Sequence[T]) -> T:
    return options[int(rng.integers(len(options)))]


def _labels(rng: Draws, n: int, k: int) -> np.ndarray:
    return rng.standard_normal((n, k))


def _generic(rng: Draws, k: int) -> Regression:
    return Regression.half_mean(rng.standard_normal((FEW, D)), _labels(rng, FEW, k))


def _unfitted(rng: Draws, k: int) -> Regression:
    return Regression.mean(rng.standard_normal((MANY, D)), _labels(rng, MANY, k))


def _teacher(rng: Draws, k: int) -> Regression:
    X = rng.standard_normal((MANY, D))
    return Regression.half_mean(X, X @ _labels(rng, D, k))


def _repeated(rng: Draws, k: int) -> Regression:
    """A sample twice, with the same label."""
    X = rng.standard_normal((FEW, D))
    Y = _labels(rng, FEW, k)
    X[1] = X[0]
    Y[1] = Y[0]
    return Regression.half_mean(X, Y)


def _conflicting(rng: Draws, k: int) -> Regression:
    """A sample twice, with different labels."""
    X = rng.standard_normal((FEW, D))
    X[1] = X[0]
    return Regression.half_mean(X, _labels(rng, FEW, k))


def _rank_one(rng: Draws, k: int) -> Regression:
    X = np.outer(rng.standard_normal(FEW), rng.standard_normal(D))
    return Regression.half_mean(X, X @ _labels(rng, D, k))


def _no_labels(rng: Draws, k: int) -> Regression:
    return Regression.half_mean(rng.standard_normal((FEW, D)), np.zeros((FEW, k)))


def _whitened(rng: Draws, k: int) -> Regression:
    """All singular values are equal."""
    X = np.linalg.qr(rng.standard_normal((D, FEW)))[0].T
    return Regression.half_sum(X, _labels(rng, FEW, k))


def _axes(rng: Draws, k: int) -> Regression:
    """One feature a sample, two of the same size, and one that no sample has."""
    X = np.zeros((FEW, D))
    X[range(FEW), range(FEW)] = [1.0, 1.0, 2.0]
    return Regression.half_mean(X, _labels(rng, FEW, k))


def _uneven(rng: Draws, k: int) -> Regression:
    """Features of sizes from 0.1 to 3."""
    X = rng.standard_normal((FEW, D)) * np.geomspace(0.1, 3.0, D)
    return Regression.half_mean(X, _labels(rng, FEW, k))


PROBLEMS: list[Callable[[Draws, int], Regression]] = [
    *[_generic] * 3,
    _unfitted,
    *[_teacher] * 2,
    _repeated,
    _conflicting,
    _rank_one,
    _no_labels,
    _whitened,
    _axes,
    _uneven,
]


def _gaussian(rng: Draws, net: Net, problem: Regression) -> Params:
    return init.gaussian(net, _choice(rng, (0.1, 0.5, 1.0)), key=_key(rng))


def _xavier(rng: Draws, net: Net, problem: Regression) -> Params:
    if isinstance(net, ChainNet):
        return init.xavier(net, key=_key(rng))
    return init.constant(net, _choice(rng, (0.1, 0.5)))


def _unseen(rng: Draws, net: Net, problem: Regression) -> Params:
    """A first layer that no sample sees."""
    params = init.gaussian(net, 0.5, key=_key(rng))
    name = next(iter(params))
    basis = problem.row_space
    first = params[name]
    return {**params, name: first - basis @ (basis.T @ first)}


def _orthogonal(rng: Draws, net: Net, problem: Regression) -> Params:
    return init.orthogonal(net, gamma=_choice(rng, (1e-4, 1e-2, 0.3)), key=_key(rng))


def _balanced(rng: Draws, net: Net, problem: Regression) -> Params:
    return init.balanced(net, 0.3 * rng.standard_normal((D, problem.k)), key=_key(rng))


def _towards(rng: Draws, net: Net, problem: Regression) -> Params:
    """Balanced, opposite to the solution or along it."""
    theta = problem.as_predictor(problem.min_norm)
    if not np.any(theta):
        return _balanced(rng, net, problem)
    return init.balanced(net, _choice(rng, (-0.7, 0.5)) * theta, key=_key(rng))


def _key(rng: Draws) -> int:
    return int(rng.integers(2**31))


_STARTS: list[Callable[[Draws, Net, Regression], Params]] = [*[_gaussian] * 3, _xavier, _unseen]


DYNAMICS: list[Callable[[Draws], Dynamics]] = [
    *[lambda rng: Flow()] * 4,
    *[lambda rng: Descent(_choice(rng, RATES))] * 3,
    lambda rng: Descent(_choice(rng, RATES), momentum=0.9),
    lambda rng: Descent(_choice(rng, RATES), weight_decay=0.01),
    lambda rng: Descent(_choice(rng, RATES), Minibatch(2)),
    lambda rng: Descent(_choice(rng, RATES), LabelNoise(0.5)),
]
