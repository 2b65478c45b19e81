"""Lemma 6.2, the clause on random signs: how often three samples are independent."""

import numpy as np

from ...numerics.host_rng import generator
from ..prelude import (
    Claims,
    Control,
    Measurements,
    Run,
    Setup,
    Theorem,
    at_most,
    common,
    kind,
    measured,
    setup_of,
)
from ._paper import DIAGONAL_FLOW
from ._thms_6_6_6_7 import sparse_flow

DRAWS = 1_500_000
INPUTS = (4, 5, 6, 8)  # how many inputs the matrices have that are drawn
SAMPLES = 3
SLOW_DECAY = 0.999  # the c that the paper's source proves, of square matrices


def predict_dependent(setup: Setup) -> Claims:
    """1 − (1 − p)(1 − 2p) with p = 2^{1−d}: dependent are two that are equal up to a sign."""
    d = np.array(INPUTS)
    p = 2.0 ** (1 - d)
    return {"dependent": 1 - (1 - p) * (1 - 2 * p), "bound": at_most(SLOW_DECAY**d)}


def measure_dependent(run: Run) -> Measurements:
    """The share of fresh draws whose Gram determinant, in whole numbers, is 0."""
    key = setup_of(run).key
    shares = np.array([_share(key, d) for d in INPUTS])
    error = np.sqrt(shares * (1 - shares) / DRAWS)
    share = measured(shares, standard_error=error)
    return {"dependent": share, "bound": share}


def _share(key: int, d: int) -> float:
    rng = generator(1000 * key + d, "zeroloss signs")
    Z = 2 * rng.integers(2, size=(DRAWS, SAMPLES, d), dtype=np.int8) - 1
    a, b, c = (
        np.sum(Z[:, i] * Z[:, j], axis=1, dtype=np.int64) for i, j in ((0, 1), (0, 2), (1, 2))
    )
    # Of a symmetric matrix with d on its diagonal.
    return float(np.mean(d**3 + 2 * a * b * c - d * (a * a + b * b + c * c) == 0))


def three_signs(setup: Setup) -> bool:
    """Three samples of signs?"""
    problem = common.regression(setup)
    return problem.n == SAMPLES and bool(np.ptp(np.abs(problem.X)) == 0)


SIGNS = Theorem(
    "zeroloss.lemma6.2.signs",
    r"Samples of random signs are independent with a probability of at least $1 - c^d$: three of "
    r"them with $(1 - 2^{1-d})(1 - 2^{2-d})$.",
    hypotheses=[
        common.one_output(),
        kind("there are three samples of signs", three_signs),
    ],
    predict=predict_dependent,
    measure=measure_dependent,
    tolerance=0.001,
    instances=lambda key: sparse_flow((SAMPLES, 12, 1), "boolean", key),
    controls=[
        Control(
            "p for 2p",
            lambda key: sparse_flow((SAMPLES, 12, 1), "boolean", key),
            lambda s: {"dependent": 1 - (1 - 2.0 ** (1 - np.array(INPUTS))) ** 2},
            formula=True,
        ),
    ],
    never_tight="The proof's c is 0.999, for square matrices; here the share falls as 2^{-d}.",
    title="independent samples of signs",
    paper=DIAGONAL_FLOW,
)

THEOREMS = (SIGNS,)
