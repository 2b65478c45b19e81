"""Lemma B.3: what the least singular value of a wide factor leaves of a product."""

import numpy as np

from ...theory.imbalance import split
from ..prelude import (
    Claim,
    Claims,
    Control,
    Erratum,
    Measurements,
    Run,
    Setup,
    Theorem,
    at_least,
    common,
    kind,
    setup_of,
)
from . import _instances as cases
from ._facts import BOTH, OF_DATA, SOMETHING, errors, norms, path, problem_of, pulls, start
from ._paper import PAPER


def _values(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.svd(matrices, compute_uv=False)


def predict_products(setup: Setup, run: Run, which: int = -1) -> Claims:
    """σ_i(E)σ_m(V) for what moves U1, σ_i(√S E)σ_r(U1) for what moves V."""
    problem = problem_of(setup)
    parts = split(problem)
    now = path(run)
    E = errors(problem, now)
    # E is a difference, and rounded as its terms are.
    rounded = 1e-6 * (float(np.linalg.norm(parts.B)) + parts.sigma[0] * norms(now.Z) ** 2)

    def least(A: np.ndarray, B: np.ndarray) -> Claim:
        product = _values(A) * _values(B)[:, [which]]
        size = _values(B)[:, 0] * (norms(A) + rounded * max(1.0, parts.sigma[0]))
        return at_least(product, scale=np.maximum(size, 1e-300)[:, None])

    pushed = np.swapaxes(parts.sigma[:, None] * E, 1, 2)
    return {"velocity of U1": least(E, now.V), "velocity of V": least(pushed, now.U1)}


def measure_products(run: Run) -> Measurements:
    """Singular values of the gradients of both layers: U1' = √S E V and V' = EᵀU1 √S."""
    parts = split(problem_of(setup_of(run)))
    slope = pulls(run)
    first = slope.U1 / (parts.speed * parts.sigma[:, None])
    m = slope.V.shape[1]
    r = slope.U1.shape[1]
    return {
        "velocity of U1": _values(first)[:, : min(r, m)],
        "velocity of V": _values(slope.V / parts.speed)[:, : min(r, m)],
    }


def even(key: int) -> Setup:
    """A second layer of orthogonal rows of one length: at the start both sides are equal."""
    params = cases.gaussian(key)
    _, _, _, m, width = cases.sizes(key)
    params["W2"] = 1.5 * cases.frame(cases.draws(key, "even"), width, m)
    return cases.setup(key, params)


def as_many_units(setup: Setup) -> bool:
    """Are both layers at least as wide as they are high?"""
    now = start(setup)
    return max(len(now.U1), len(now.V)) <= now.V.shape[1]


LEMMA_B3 = Theorem(
    "imbalance.lemmaB.3",
    r"$\sigma_i(A)\sigma_n(B) \le \sigma_i(AB)$ where $B$ has $n$ rows and at least as many "
    r"columns: as $\dot U_1 = \sqrt{S}EV$ and $\dot V = E^T\sqrt{S}U_1$, along gradient flow "
    r"$\sigma_i(E)\sigma_m(V) \le \sigma_i(S^{-1/2}\dot U_1)$ and "
    r"$\sigma_i(E^T\sqrt{S})\sigma_r(U_1) \le \sigma_i(\dot V)$. Both sides are equal where the "
    r"rows of $B$ are orthogonal and of one length.",
    hypotheses=[
        common.no_decay(),
        OF_DATA,
        SOMETHING,
        kind("there are as many hidden units as outputs and as the rank", as_many_units),
    ],
    predict=predict_products,
    measure=measure_products,
    tolerance=1e-9,
    instances=even,
    controls=[
        Control(
            "the largest singular value of B in the place of the least",
            cases.setup,
            lambda setup, run: predict_products(setup, run, 0),
            formula=True,
        )
    ],
    given=("path",),
    dynamics=BOTH,
    errata=[
        Erratum(
            "Lemma B.3",
            r"$\sigma_i(A)\sigma_n(B) < \sigma_i(AB)$",
            r"$\le$, as in its proof: for $B = I$ both sides are equal",
            "misprint",
            quote=r"\sigma_i(A)\sigma_n(B) < \sigma_i(AB)",
        )
    ],
    title="singular values of a product",
    paper=PAPER,
)

THEOREMS = (LEMMA_B3,)
