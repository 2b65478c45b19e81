"""Evidence about label noise and noise alone, by NumPy."""

import numpy as np

from ...theory import commutator_moments, noise_only_paths
from .._erratum import Evidence
from . import _instances as cases


def printed_clock(key: int) -> Evidence:
    """The mean loss of 20 000 steps of descent, against noise δ and √lr·δ in the time of flow."""
    problem, lr, std = cases.regression(key, k=1, whitened=True), 0.01, 0.3
    rng = cases.draws(key + 31)
    X, y, c = np.asarray(problem.X), np.ravel(problem.labels), 2 * float(problem.weight)
    W, a = 0.5 * rng.standard_normal((X.shape[1], 4)), np.zeros(4)
    mean, mu = 0.0, 0.0
    for k in range(20_000):
        r = y - X @ (W @ a)
        R = c * X.T @ (r + std * rng.standard_normal(len(y)))
        if k >= 2_000:
            mean += float(r @ r) * c / 2 / 18_000
            mu += c * (float(np.sum((X @ W) ** 2)) + float(a @ a) * float(np.sum(X**2))) / 18_000
        W, a = W + lr * np.outer(R, a), a + lr * (W.T @ R)
    right = c / 4 * lr * std**2 * mu
    return Evidence(abs(right / lr - mean) / mean, abs(right - mean) / mean)


def mean_commutator(key: int, d: int = 2, paths: int = 4000, t: float = 1.0) -> Evidence:
    """E|z_1 ∧ a| from W = I, a = 0: 0 as printed; its square has the moments of `theory`.

    The error of the corrected form is that of E Σ_i(z_i ∧ a)², in units of the same spread.
    """
    found = noise_only_paths(np.eye(d), np.eye(d), np.zeros(d), [t], paths, 0.01, key)
    W, a = found.W[:, 0], found.a[:, 0]
    e = W[:, :, 0] * a[:, None, 1] - W[:, :, 1] * a[:, None, 0]
    size, square = np.abs(e[:, 0]), np.sum(e**2, axis=1)
    error = size.std() / np.sqrt(paths)
    told = commutator_moments(np.eye(d), np.zeros(d), t).P[0, 1]
    return Evidence(
        float(size.mean()), float(abs(square.mean() - told)), z=float(size.mean() / error)
    )
