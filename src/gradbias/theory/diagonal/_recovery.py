"""How many samples suffice for label noise to find a sparse teacher."""

import dataclasses

import numpy as np
import scipy.stats

from ...numerics import checks


@dataclasses.dataclass(frozen=True)
class Recovery:
    """A sufficient condition for recovery.

    Attributes:
        threshold: samples that suffice.
        condition_met: are there so many?
        probability: a lower bound on the probability of recovery; NaN where none is known.
    """

    threshold: float
    condition_met: bool
    probability: float


def boolean_recovery(n: int, d: int, nonzero: int, constant: float = 1.0) -> Recovery:
    """Recovery from n ≥ C(κ ln(d/κ) + κ) samples, for inputs of random signs, Lemma D.7.

    The columns all have the same size, so the weighted ℓ1 norm is the plain one. The lemma
    asserts that a constant C exists, with a probability 1 − e^{−cn}; neither is known. C = 1 is
    what linear programs show, not what is proved: half of the draws recover at 0.89 to 1.11 times
    κ ln(d/κ) + κ (d from 30 to 240, κ = 2 and 4). For one data set, ask `l1_certificate`.

    Args:
        n: samples.
        d: inputs.
        nonzero: κ, coordinates of the teacher that are not zero.
        constant: C.
    """
    n, d, kappa = _sizes(n, d, nonzero)
    threshold = checks.number("constant", constant, above=0) * kappa * (np.log(d / kappa) + 1)
    return Recovery(float(threshold), bool(n >= threshold), float("nan"))


def gaussian_recovery(n: int, d: int, nonzero: int) -> Recovery:
    """Recovery where √(n−1)/2 > √κ + 3√(2κ ln 2(d−κ)), for N(0, 1) inputs, proof of Lemma D.8.

    The columns differ in size and with them the weights of the ℓ1 norm, which depend on the data
    they are used on. The proof covers all weights within a factor 3 at once, which costs the 3;
    the probability is 1 − e^{−(n−1)/8} − d·P(χ²_n/n outside [½, 3/2]). All constants are explicit,
    and large: the threshold is some 72·κ ln(2d) and says something about n < d only for very
    sparse teachers (κ = 1: d above 620). True recovery starts near κ ln d, as for random signs.

    Args:
        n: samples.
        d: inputs.
        nonzero: κ, coordinates of the teacher that are not zero.
    """
    n, d, kappa = _sizes(n, d, nonzero)
    width = np.sqrt(kappa)
    if d > kappa:
        width += 3 * np.sqrt(2 * kappa * np.log(2 * (d - kappa)))
    law = scipy.stats.chi2(n)
    outside = law.cdf(n / 2) + law.sf(3 * n / 2)
    met = bool(np.sqrt(n - 1) / 2 > width)
    probability = max(1 - np.exp(-(n - 1) / 8) - d * outside, 0.0) if met else 0.0
    return Recovery(float(1 + 4 * width**2), met, float(probability))


def _sizes(n: int, d: int, nonzero: int) -> tuple[int, int, int]:
    n = checks.integer("n", n, at_least=1)
    d = checks.integer("d", d, at_least=1)
    kappa = checks.integer("nonzero", nonzero, at_least=1)
    if kappa > d:
        raise ValueError(f"nonzero must be at most d = {d}, got {kappa}")
    return n, d, kappa
