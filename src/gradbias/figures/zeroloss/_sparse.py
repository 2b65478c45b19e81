"""Diagonal nets on few samples, with what label noise does to them in closed form."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory import diagonal
from .._figure import Settings

LEAST = 0.8  # singular value of X: closer to a rank deficiency, the manifold is far away

SIZES = {"n": 3, "d": 5, "std": 1.0}  # and of the noise on the labels


def regression(s: Settings) -> Regression:
    """Gaussian inputs of length √d, so that no sample is unstable, and a sparse teacher."""
    rng = generator(s.key, "figures.sparse")
    while True:
        X = rng.standard_normal((s.n, s.d))
        X *= np.sqrt(s.d) / np.linalg.norm(X, axis=1, keepdims=True)
        if np.linalg.svd(X, compute_uv=False)[-1] > LEAST:
            break
    teacher = np.zeros(s.d)
    teacher[rng.permutation(s.d)[:2]] = rng.choice([-1.0, 1.0], 2)
    return Regression.half_mean(X, X @ teacher)


def start(s: Settings) -> dict[str, np.ndarray]:
    """Halves of different sizes, away from zero."""
    rng = generator(s.key, "figures.sparse start")
    return {name: rng.uniform(0.4, 0.8, s.d) for name in ("u", "v")}


def limits(problem: Regression, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Φ of many points: (…, 2d) from (…, d) and (…, d)."""
    d = u.shape[-1]
    pairs = zip(u.reshape(-1, d), v.reshape(-1, d), strict=True)
    ends = [diagonal.limit(problem, {"u": a, "v": b}) for a, b in pairs]
    flat = np.stack([np.concatenate([end.u, end.v]) for end in ends])
    return flat.reshape(*u.shape[:-1], 2 * d)


def flow(problem: Regression, params: dict[str, np.ndarray], t: ArrayLike, c: float) -> np.ndarray:
    """(u, v) of the limiting flow, (times, 2d)."""
    return np.concatenate(diagonal.limiting_flow(problem, params, t, c), axis=-1)
