"""Theorem 3.1: zero loss, the predictor of least norm, and the potential of the layers."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ..._engine.status import Ending
from ...theory.potentials import log_det_potential
from ...theory.spectral import exponential_rate, kkt_residual
from .._claims import at_least, equals, measured
from .._erratum import Erratum
from .._hypothesis import Hypothesis
from .._shared_measurements import limit
from .._theorem import Control, Theorem, Told
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    ABOUT,
    DIES_OUT,
    I_GAMMA,
    OF_DATA,
    PLAIN,
    QUIET,
    STABLE,
    STEADY,
    STEPS,
    gamma_of,
    limit_of,
    problem_of,
    sized,
    start,
)
from ._finite_step import drift, small_step
from ._measurements import ended

TRIALS = 50  # random interpolators that are compared with the limit


def _excess(setup: Setup, theta: Any) -> float:
    problem = problem_of(setup)
    return float(problem.excess()(problem.as_predictor(theta)))


def _from_the_start(setup: Setup) -> dict[str, Any]:
    W1, W2, _ = start(setup)
    return {"excess loss": equals(0.0, scale=_excess(setup, W1 @ W2) or 1.0)}


def _left(runs: Any) -> dict[str, Any]:
    run = runs["run"]
    return {"excess loss": measured(_excess(run.setup, run.theta), error=_allowed(run))}


def _allowed(run: Any) -> float:
    """What the rate of the flow still allows when a run was broken off."""
    setup, gamma = run.setup, gamma_of(run.setup)
    if run.status.ending in (Ending.CONVERGED, Ending.CONVERGED_TO_TOLERANCE) or not gamma > 0:
        return 0.0
    at = np.asarray([run.status.at])
    time = float((at if run.status.axis == "time" else setup.dynamics.time(at))[0])
    W1, W2, _ = start(setup)
    rate = exponential_rate(setup.problem, gamma)
    return _excess(setup, W1 @ W2) * float(np.exp(-min(rate * time, 700.0)))


THM_3_1_I = Theorem(
    "spectral.thm3.1i",
    r"From $I_\gamma$ with $\gamma > 0$ gradient flow reaches the least loss that any predictor "
    r"has.",
    [PLAIN, OF_DATA, DIES_OUT, I_GAMMA],
    _from_the_start,
    _left,
    1e-12,
    cases.flow,
    [Control("γ is above 0", cases.nothing)],
    title="the loss goes to its minimum",
    dynamics=STEPS,
    **ABOUT,
)


def _least_norm(setup: Setup) -> Told:
    limit = limit_of(setup)
    return Told(sized({"theta": limit.theta}), residual=limit.kkt.feasibility)


THM_3_1_II = Theorem(
    "spectral.thm3.1ii",
    r"From $I_\gamma$ the predictor goes to $\beta^\star = X^+Y$, the minimiser of least norm, "
    r"for every $\gamma > 0$; descent with a finite step and minibatches go there too.",
    [PLAIN, OF_DATA, DIES_OUT, I_GAMMA],
    _least_norm,
    lambda runs: {"theta": limit(runs["run"])},
    1e-8,
    cases.flow,
    [Control("the init is I_γ", cases.anisotropic)],
    errata=[
        Erratum(
            "Lemma C.6, end of the proof",
            r"$\beta = (I-\alpha\alpha^T)^{-1}\alpha$",
            r"$\beta = 2\gamma(I-\alpha\alpha^T)^{-1}\alpha$",
            "numeric",
            evidence.predictor_of_dual,
            note="the conclusion does not need the factor",
        )
    ],
    title="the limit is the least-norm predictor",
    dynamics=STEPS,
    **ABOUT,
)


def _potential(setup: Setup) -> Told:
    limit = limit_of(setup)
    scale = float(np.sum(limit.singular_values.W1**2)) / 2
    return Told(
        {
            "potential": equals(limit.potential, scale=scale),
            "of other interpolators": at_least(limit.potential, scale=scale),
        },
        residual=limit.residual,
    )


def _compared(runs: Any) -> dict[str, Any]:
    run = runs["run"]
    setup, gamma = run.setup, gamma_of(run.setup)
    W1, W2 = np.asarray(run.final["W1"]), np.asarray(run.final["W2"])
    potential = log_det_potential(gamma)
    slope = np.sqrt(setup.problem.k)  # ∇F = α, whose singular values are below 1
    others = min(potential.value(*_interpolator(setup, W1, seed)) for seed in range(TRIALS))
    return {
        "potential": ended(run, potential.value(W1, W2), slope),
        "of other interpolators": others,
    }


def _interpolator(setup: Setup, W1: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Another first layer, another interpolator, and the best second layer for both."""
    rng = cases.draws(seed)
    size = 0.5 ** rng.integers(0, 12)
    problem = problem_of(setup)
    beta = problem.as_predictor(problem.min_norm)
    basis = problem.row_space
    free = rng.standard_normal(beta.shape)
    beta = beta + size * (free - basis @ (basis.T @ free))
    first = W1 + size * np.sqrt(np.mean(W1**2)) * rng.standard_normal(W1.shape)
    return first, np.linalg.pinv(first) @ beta


THM_3_1_III = Theorem(
    "spectral.thm3.1iii",
    r"From $I_\gamma$ the layers go to a global minimiser of "
    r"$\frac{1}{2}\|W_1\|^2 + \frac{1}{2}\|W_2\|^2 - \gamma\log\det W_1W_1^T$ over all "
    r"interpolators.",
    [
        PLAIN,
        QUIET,
        I_GAMMA,
        STEADY,
        STABLE,
        # A gradient g of the potential along the interpolators, where its curvature is at least
        # 1, leaves ½|g|² of it.
        Hypothesis("the step is small", lambda s: drift(s).kkt ** 2, 0.2, True, "O(lr²)"),
    ],
    _potential,
    _compared,
    {"potential": 1e-8, "of other interpolators": 1e-9},
    cases.flow,
    [Control("the init is I_γ", cases.anisotropic)],
    errata=[
        Erratum(
            "Theorem 3.1 (iii), proof",
            r"the minimum is taken over $W_1P_\perp^T = 0$, and stationarity is shown",
            r"the minimum is global, over all interpolators, unique up to a rotation of the "
            r"hidden units",
            "loose",
            note="½tr βᵀM⁻¹β + ½tr M − γ log det M is jointly convex in M = W1W1ᵀ and β",
        )
    ],
    title="the layers minimise a log-det potential",
    dynamics=STEPS,
    **ABOUT,
)


def _conditions(runs: Any) -> dict[str, Any]:
    run = runs["run"]
    kkt = kkt_residual(problem_of(run.setup), run.final, gamma_of(run.setup))
    return {"P1": kkt.P1, "P2": kkt.P2}


PROP_C_5 = Theorem(
    "spectral.propC.5",
    r"The end of the flow from $I_\gamma$ meets the conditions of a minimum of the potential: "
    r"$\alpha = (W_1^+)^TW_2$ lies in span $X^T$ with $W_2 = W_1^T\alpha$ (P1), and "
    r"$W_1 - 2\gamma(W_1^+)^T = \alpha W_2^T$ (P2).",
    [PLAIN, QUIET, I_GAMMA, STEADY, STABLE, small_step("kkt")],
    lambda setup: {"P1": equals(0.0, scale=1.0), "P2": equals(0.0, scale=1.0)},
    _conditions,
    1e-8,
    cases.flow,
    [Control("the init is I_γ", cases.anisotropic)],
    title="the conditions of the potential's minimum",
    dynamics=STEPS,
    **ABOUT,
)
