"""Evidence about label noise and noise alone, by NumPy."""

import numpy as np

from ...theory import commutator_moments, noise_only_paths
from ..prelude import Evidence
from . import _instances as cases


def mean_commutator(key: int, d: int = 2, paths: int = 4000, t: float = 1.0) -> Evidence:
    """E|z_1 ∧ a| from W = I, a = 0: 0 as printed; its square has the moments of `theory`.

    Errors are relative: that of the corrected form is of E Σ_i(z_i ∧ a)².
    """
    ensemble = noise_only_paths(np.eye(d), np.eye(d), np.zeros(d), [t], paths, 0.01, key)
    W = ensemble.W[:, 0]
    a = ensemble.a[:, 0]
    e = W[:, :, 0] * a[:, None, 1] - W[:, :, 1] * a[:, None, 0]
    size = np.abs(e[:, 0])
    square = np.sum(e**2, axis=1)
    error = size.std() / np.sqrt(paths)
    expected = commutator_moments(np.eye(d), np.zeros(d), t).P[0, 1]
    doubts = error / size.mean(), square.std() / np.sqrt(paths) / expected
    return Evidence(
        1.0,  # 0 is printed
        float(abs(square.mean() / expected - 1)),
        float(max(doubts)),
    )


def jensen(key: int, d: int = 5, alpha: float = 0.5) -> Evidence:
    """d^(1−α) Σ w_i^α over (Σ w_i)^α for positive numbers, and with d^(α−1)."""
    w = cases.draws(key + 33).uniform(0.5, 1.5, size=d)
    ratio = float(np.sum(w**alpha) / np.sum(w) ** alpha)
    return Evidence(d ** (1 - alpha) * ratio, d ** (alpha - 1) * ratio)
