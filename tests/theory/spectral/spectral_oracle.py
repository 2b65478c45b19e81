"""Gradient flow of both layers by DOP853: an oracle that shares no line with the library."""

import functools
from typing import NamedTuple

import numpy as np
import scipy.integrate

RTOL = 1e-12


class Case(NamedTuple):
    n: int
    d: int
    k: int
    width: int
    gamma: float
    weight: float = 0.5
    rank: int = 99
    noise: float = 0.0
    seed: int = 0


CASES = {
    "generic": Case(3, 5, 2, 7, 0.4),
    "more outputs than inputs": Case(4, 3, 5, 6, 0.2, weight=0.25),
    "one output": Case(3, 6, 1, 8, 0.05, weight=1.0),
    "rank deficient": Case(5, 6, 2, 6, 0.1, rank=2),
    "small init": Case(2, 4, 2, 4, 1e-5),
    "no interpolator": Case(9, 3, 2, 5, 0.5, weight=1 / 9, noise=0.7),
    "scalars": Case(1, 1, 1, 3, 0.3, weight=2.0, seed=1),
}


class Path(NamedTuple):
    t: np.ndarray
    W1: np.ndarray
    W2: np.ndarray

    @property
    def beta(self):
        return self.W1 @ self.W2


@functools.cache
def data(case):
    rng = np.random.default_rng(case.seed)
    X = rng.standard_normal((case.n, case.d))
    if case.rank < min(X.shape):
        X = X[:, : case.rank] @ rng.standard_normal((case.rank, case.d)) / 2
    Y = X @ rng.standard_normal((case.d, case.k)) + case.noise * rng.standard_normal(
        (case.n, case.k)
    )
    return X, Y


def frame(case):
    rng = np.random.default_rng(case.seed + 1000)
    return np.linalg.qr(rng.standard_normal((case.width, case.d)))[0].T


def integrate(X, Y, W1, W2, t, weight=0.5):
    """W1' = R W2ᵀ, W2' = W1ᵀ R with R = 2·weight·Xᵀ(Y − X W1 W2)."""
    (d, width), k = W1.shape, W2.shape[1]

    def slope(_, flat):
        A, B = flat[: d * width].reshape(d, width), flat[d * width :].reshape(width, k)
        R = 2 * weight * X.T @ (Y - X @ (A @ B))
        return np.concatenate([(R @ B.T).ravel(), (A.T @ R).ravel()])

    start = np.concatenate([W1.ravel(), W2.ravel()])
    atol = 1e-11 * np.abs(start).max()
    times = np.asarray(t, dtype=float)
    done = scipy.integrate.solve_ivp(
        slope, (0, times[-1]), start, "DOP853", times, rtol=RTOL, atol=atol
    )
    assert done.success
    A = done.y[: d * width].T.reshape(-1, d, width)
    return Path(times, A, done.y[d * width :].T.reshape(-1, width, k))


@functools.cache
def flow(case, end=6.0, points=25):
    X, Y = data(case)
    W1 = np.sqrt(2 * case.gamma) * frame(case)
    t = np.linspace(0, end / (2 * case.weight), points)
    return integrate(X, Y, W1, np.zeros((case.width, case.k)), t, case.weight)


def relative(got, want):
    return np.max(np.abs(got - want)) / np.max(np.abs(want))
