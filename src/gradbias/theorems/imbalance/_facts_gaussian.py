"""Gaussian starts, recognised from their entries: the exponent α of their variance h^(−2α)."""

import math

import numpy as np
import scipy.stats

from ..prelude import Hypothesis, Setup, fact, kind
from ._facts import start

SIGMAS = 4.0
FAR = 2.0  # √n times the Kolmogorov-Smirnov distance: beyond it by chance once in 1500


@fact
def entries(setup: Setup) -> np.ndarray:
    """All entries of both layers."""
    return np.concatenate([np.ravel(setup.params[name]) for name in ("W1", "W2")])


def width(setup: Setup) -> int:
    """The number of hidden units."""
    return start(setup).V.shape[1]


@fact
def alpha_of(setup: Setup) -> float:
    """α of the entries' mean square; ½ where chance alone makes it a little more."""
    values = entries(setup)
    h = width(setup)
    size = float(np.mean(values**2))
    if h == 1 or size == 0:
        return math.nan
    alpha = -0.5 * math.log(size) / math.log(h)
    chance = SIGMAS / (math.sqrt(2 * len(values)) * math.log(h))
    return min(alpha, 0.5) if alpha <= 0.5 + chance else alpha


@fact
def _not_gaussian(setup: Setup) -> float:
    values = entries(setup)
    std = float(np.sqrt(np.mean(values**2)))
    if std == 0:
        return math.inf
    # Layers apart, against the scale of both: they must have one variance.
    parts = [np.ravel(setup.params[name]) for name in ("W1", "W2")]
    return float(
        max(scipy.stats.kstest(p / std, "norm").statistic * math.sqrt(len(p)) for p in parts)
    )


GAUSSIAN = Hypothesis("entries look like draws of one normal law", _not_gaussian, FAR)
EXPONENT = kind("their variance is h^(−2α) with ¼ < α ≤ ½", lambda s: 0.25 < alpha_of(s) <= 0.5)
HALF = kind("their variance is 1/h", lambda s: abs(alpha_of(s) - 0.5) <= _chance(s))


def _chance(setup: Setup) -> float:
    return SIGMAS / (math.sqrt(2 * len(entries(setup))) * math.log(max(width(setup), 2)))
