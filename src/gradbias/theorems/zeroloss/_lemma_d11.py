"""Lemma D.11: where the projected gradient of the regulariser vanishes, so do all products."""

import numpy as np
import scipy.optimize

from ...numerics.host_rng import generator
from ...theory import diagonal
from ..prelude import (
    Claims,
    Control,
    Measurements,
    Predict,
    Run,
    Setup,
    Theorem,
    Undecided,
    common,
    equals,
    setup_of,
)
from . import _instances as cases
from ._oracle import Place
from ._paper import DIAGONAL_FLOW
from ._section_6_1 import halves, hypotheses

STARTS = 12  # from which zeros of F are looked for
TRIES = 200
FOUND = 1e-11  # what is left of the equations at a zero, relative


def predict_products(setup: Setup, factor: float = 1.0) -> Claims:
    """4s_ju_jv_j with the products of the start; and none where F is zero."""
    problem = common.regression(setup)
    rates = diagonal.decay_rates(problem)
    size = float(np.linalg.norm(np.ravel(problem.min_norm)))
    return {
        "sides": 4 * factor * rates * np.prod(halves(setup), axis=0),
        "zeros": equals(np.zeros(problem.d), scale=size),
    }


def times(factor: float) -> Predict:
    """The first of them times a factor."""
    return lambda setup: predict_products(setup, factor)


def measure_products(run: Run) -> Measurements:
    """v∘F_u + u∘F_v by three derivatives where the run ended; the largest |uv| of zeros of F."""
    place = Place.end_of(run)
    F = place.trace_gradient()
    F = F - place.normal() @ F
    u, v = np.split(place.x, 2)
    F_u, F_v = np.split(F, 2)
    found = [np.abs(x[: len(u)] * x[len(u) :]) for x in zeros(setup_of(run))]
    return {"sides": v * F_u + u * F_v, "zeros": np.max(found, axis=0)}


def zeros(setup: Setup) -> list[np.ndarray]:
    """Fits (u, v) with F = 0, by least squares from random starts, with λ as unknowns of its own.

    Not only the least R: every point where it is stationary along the fits.
    """
    problem = common.regression(setup)
    X = np.asarray(problem.X)
    y = np.ravel(problem.Y)
    n, d = X.shape
    weights = 8 * float(problem.weight) * np.sum(np.square(X), axis=0)
    rng = generator(setup.key, "zeroloss zeros")

    def equations(z: np.ndarray) -> np.ndarray:
        u, v, lam = np.split(z, [d, 2 * d])
        pull = X.T @ lam
        left = X @ (u * u - v * v) - y
        return np.concatenate([(weights - pull) * u, (weights + pull) * v, left])

    found: list[np.ndarray] = []
    size = np.sqrt(np.abs(np.ravel(problem.min_norm)).max())
    for _ in range(TRIES):
        start = np.concatenate([size * rng.standard_normal(2 * d), rng.standard_normal(n)])
        end = scipy.optimize.least_squares(equations, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
        if np.max(np.abs(end.fun)) < FOUND * (np.max(weights) * size + np.max(np.abs(y))):
            found.append(end.x[: 2 * d])
        if len(found) == STARTS:
            break
    if not found:
        raise Undecided(f"of {TRIES} random starts none led to a point where F is zero")
    return found


LEMMAD_11 = Theorem(
    "zeroloss.lemmaD.11",
    r"On the manifold $v_j F_{u_j} + u_j F_{v_j} = 4 s_j u_j v_j$: where $F = 0$, one of $u_j$ and "
    r"$v_j$ is zero for every $j$.",
    hypotheses=[*hypotheses(), cases.few_parameters(), cases.arrives()],
    predict=predict_products,
    measure=measure_products,
    tolerance=1e-7,
    instances=cases.diagonal_flow,
    # Off the manifold the first of them holds as well: (u, −v) is in the normal space anywhere.
    controls=[Control("half of it", cases.diagonal_flow, times(0.5), formula=True)],
    title="where the projected gradient vanishes",
    paper=DIAGONAL_FLOW,
)

THEOREMS = (LEMMAD_11,)
