"""Theorem 3.1: zero loss, the predictor of least norm, and the potential of the layers."""

import numpy as np

from ..._engine.status import Ending
from ...theory.potentials import log_det_potential
from ...theory.spectral import exponential_rate, kkt_residual
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    at_least,
    equals,
    limit,
    measured,
    setup_of,
)
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    DIES_OUT,
    I_GAMMA,
    OF_DATA,
    PLAIN,
    STEPS,
    TO_THE_END,
    gamma_of,
    limit_of,
    problem_of,
    sized,
    start,
)
from ._finite_step import drift, small_step
from ._measurements import end_of, ended
from ._paper import PAPER

TRIALS = 50  # random interpolators that are compared with the limit


def _excess(setup: Setup, theta: np.ndarray) -> float:
    problem = problem_of(setup)
    return float(problem.excess()(problem.as_predictor(theta)))


def predict_from_the_start(setup: Setup) -> Claims:
    W1, W2, _ = start(setup)
    return {"excess loss": equals(0.0, scale=_excess(setup, W1 @ W2) or 1.0)}


def measure_from_the_start(run: Run) -> Measurements:
    return {"excess loss": measured(_excess(setup_of(run), end_of(run)), error=_allowed(run))}


def _allowed(run: Run) -> float:
    """What the rate of the flow still allows when a run was broken off."""
    setup = setup_of(run)
    gamma = gamma_of(setup)
    if run.status.ending in (Ending.CONVERGED, Ending.CONVERGED_TO_TOLERANCE) or not gamma > 0:
        return 0.0
    at = np.asarray([run.status.at])
    time = float((at if run.status.axis == "time" else setup.dynamics.time(at))[0])
    W1, W2, _ = start(setup)
    rate = exponential_rate(problem_of(setup), gamma)
    return _excess(setup, W1 @ W2) * float(np.exp(-min(rate * time, 700.0)))


THM_3_1_I = Theorem(
    "spectral.thm3.1i",
    r"From $I_\gamma$ with $\gamma > 0$ gradient flow reaches the least loss that any predictor "
    r"has.",
    hypotheses=[PLAIN, OF_DATA, DIES_OUT, I_GAMMA],
    predict=predict_from_the_start,
    measure=measure_from_the_start,
    tolerance=1e-12,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("γ is above 0", cases.nothing)],
    title="the loss goes to its minimum",
    dynamics=STEPS,
    paper=PAPER,
)


def predict_least_norm(setup: Setup) -> Told:
    limit = limit_of(setup)
    return Told(sized({"theta": limit.theta}), residual=limit.kkt.feasibility)


THM_3_1_II = Theorem(
    "spectral.thm3.1ii",
    r"From $I_\gamma$ the predictor goes to $\beta^\star = X^+Y$, the minimiser of least norm, "
    r"for every $\gamma > 0$; descent with a finite step and minibatches go there too.",
    hypotheses=[PLAIN, OF_DATA, DIES_OUT, I_GAMMA],
    predict=predict_least_norm,
    measure=lambda run: {"theta": limit(run)},
    tolerance=1e-8,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    errata=[
        Erratum(
            "Lemma C.6, end of the proof",
            r"$\beta = (I-\alpha\alpha^T)^{-1}\alpha$",
            r"$\beta = 2\gamma(I-\alpha\alpha^T)^{-1}\alpha$",
            "misprint",
            evidence=evidence.predictor_of_dual,
            quote=r"$\beta = (\mathbf{I} - \alpha \alpha^\top)^{-1} \alpha$ . Using, Woodbury",
            note="Lemma C.2 has it right; the conclusion does not need the factor",
        )
    ],
    title="the limit is the least-norm predictor",
    dynamics=STEPS,
    paper=PAPER,
)


def predict_potential(setup: Setup) -> Told:
    limit = limit_of(setup)
    scale = float(np.sum(limit.singular_values.W1**2)) / 2
    return Told(
        {
            "potential": equals(limit.potential, scale=scale),
            "of other interpolators": at_least(limit.potential, scale=scale),
        },
        residual=limit.residual,
    )


def measure_potential(run: Run) -> Measurements:
    setup = setup_of(run)
    gamma = gamma_of(setup)
    W1 = np.asarray(run.final["W1"])
    W2 = np.asarray(run.final["W2"])
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
    hypotheses=[
        *TO_THE_END,
        # A gradient g of the potential along the interpolators, where its curvature is at least
        # 1, leaves ½|g|² of it.
        Hypothesis("the step is small", lambda s: drift(s).kkt ** 2, 0.2, True, "O(lr²)"),
    ],
    predict=predict_potential,
    measure=measure_potential,
    tolerance={"potential": 1e-8, "of other interpolators": 1e-9},
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    errata=[
        Erratum(
            "Theorem 3.1 (iii), proof",
            r"the minimum is taken over $W_1P_\perp^T = 0$, and stationarity is shown",
            r"the minimum is global, over all interpolators, unique up to a rotation of the "
            r"hidden units",
            "loose",
            quote=r"This hold on the set $\{(\mathbf{W}_1, \mathbf{W}_2) : \mathbf{W}_1 "
            r"P_\perp^\top = 0, P_\perp \mathbf{W}_2 = 0\}$",
            note="½tr βᵀM⁻¹β + ½tr M − γ log det M is jointly convex in M = W1W1ᵀ and β",
        )
    ],
    title="the layers minimise a log-det potential",
    dynamics=STEPS,
    paper=PAPER,
)


def measure_conditions(run: Run) -> Measurements:
    kkt = kkt_residual(problem_of(setup_of(run)), run.final, gamma_of(setup_of(run)))
    return {"P1": kkt.P1, "P2": kkt.P2}


PROP_C_5 = Theorem(
    "spectral.propC.5",
    r"The end of the flow from $I_\gamma$ meets the conditions of a minimum of the potential: "
    r"$\alpha = (W_1^+)^TW_2$ lies in span $X^T$ with $W_2 = W_1^T\alpha$ (P1), and "
    r"$W_1 - 2\gamma(W_1^+)^T = \alpha W_2^T$ (P2).",
    hypotheses=[*TO_THE_END, small_step("kkt")],
    predict=lambda setup: {"P1": equals(0.0, scale=1.0), "P2": equals(0.0, scale=1.0)},
    measure=measure_conditions,
    tolerance=1e-8,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    title="the conditions of the potential's minimum",
    dynamics=STEPS,
    paper=PAPER,
)
