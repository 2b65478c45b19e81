"""Sections 3.1 and 3.2: how far from the solution of least norm gradient flow ends."""

import math

import numpy as np

from ...dynamics import Descent
from ...noise import Isotropic
from ...theory.imbalance import bias_bound, invariant_residual, split
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_most,
    common,
    equals,
    kind,
    setup_of,
)
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    BOTH,
    BOUND,
    DIES_OUT,
    IMBALANCED,
    OF_DATA,
    PLAIN,
    SOMETHING,
    STEP,
    errors,
    growth_widening,
    measure_end,
    norms,
    path,
    problem_of,
    pulls,
    small_step,
    start,
)
from ._paper import PAPER
from ._section_2 import states

HIDDEN = 1e-10  # of the first layer: a part that the data do not see and that is not rounding


def _has_unseen(setup: Setup) -> bool:
    size = float(np.linalg.norm(setup.params["W1"]))
    return bool(np.linalg.norm(start(setup).U2) > HIDDEN * size)


UNSEEN = kind("some of the start is unseen by the data", _has_unseen)


def predict_end(setup: Setup, run: Run) -> Claims:
    problem = problem_of(setup)
    bias = split(problem).Phi2 @ start(setup).U2 @ run.final["W2"]
    theta = problem.min_norm + problem.at_edge(bias)
    return {"theta": equals(theta, scale=float(np.linalg.norm(theta)) or _sized(setup) or 1.0)}


EQ14 = Theorem(
    "imbalance.eq14",
    r"Gradient flow, and descent with any step that converges, ends at "
    r"$\Theta(\infty) = \Theta^\star + \Phi_2U_2(0)V(\infty)^T$, with $\Theta^\star = X^+Y$ the "
    r"minimiser of least Frobenius norm.",
    hypotheses=[common.no_decay(), OF_DATA, DIES_OUT, SOMETHING],
    predict=predict_end,
    measure=measure_end,
    tolerance=1e-8,
    instances=cases.setup,
    paper_size=cases.paper_size,
    controls=[Control("there is no weight decay", cases.decaying)],
    given=("second layer at the end",),
    dynamics=BOTH,
    errata=[
        Erratum(
            "Eq (11)",
            r"$\Theta^\star$ is the interpolator of least spectral norm",
            r"of least Frobenius norm; for $m > 1$ that of least spectral norm is not unique",
            "false",
            evidence=evidence.spectral_norm,
            quote=r"\{\|\Theta\|_2 : \|Y - X\Theta\|_F^2 = \underset{\Theta}{\min} \|Y - "
            r"X\Theta\|_F^2 \}",
            note="Section 1.2 defines the norm with the index 2 as the spectral one.",
        ),
        Erratum(
            "before Proposition 1",
            r"$\Phi_2^TU_2V^T = 0$",
            r"$U_2V^T = 0$",
            "misprint",
            quote=r"$\Phi_2^T U_2(t)V^T(t)\equiv 0$",
            note="Φ2ᵀ is (D − r, D) and U2 has D − r rows; (14) has it right",
        ),
    ],
    title="where the flow ends",
    paper=PAPER,
)


def predict_residual_velocity(setup: Setup, run: Run) -> Claims:
    problem = problem_of(setup)
    parts = split(problem)
    m = problem.k
    E = errors(problem, path(run))
    rows = []
    for error, params in zip(E, states(run), strict=True):
        Zr = invariant_residual(problem, params)
        push = parts.sigma[:, None] * error
        rows.append(parts.speed * np.concatenate([push.T @ Zr[m:], push @ Zr[:m]]))
    return {"velocity": equals(np.asarray(rows), scale=_largest_velocity(setup, run, E))}


def _largest_velocity(setup: Setup, run: Run, E: np.ndarray) -> np.ndarray:
    """σ_1‖E‖‖Z‖‖U2‖ at every save: a start on the invariant set has Z_r = 0, up to rounding.

    E is a difference, and rounded as its terms are.
    """
    parts = split(problem_of(setup))
    Z = norms(path(run).Z)
    terms = float(np.linalg.norm(parts.B)) + parts.sigma[0] * Z**2
    push = parts.speed * parts.sigma[0] * (norms(E) + 1e-6 * terms)
    # Never zero: where all layers are, so is what moves them.
    return np.maximum(push * Z * np.linalg.norm(start(setup).U2), 1e-300)[:, None, None]


def measure_residual_velocity(run: Run) -> Measurements:
    """From the gradients, with U2 as it was at the start."""
    return {"velocity": -pulls(run).Z @ start(setup_of(run)).U2.T}


EQ16 = Theorem(
    "imbalance.eq16",
    r"The residual $Z_r = [VU_2^T; U_1U_2^T]$ obeys $\dot Z_r = A Z_r$, where $A$ has the blocks "
    r"$E^T\sqrt{S}$ and $\sqrt{S}E$ off its diagonal: what is zero stays zero.",
    hypotheses=[*PLAIN, UNSEEN],
    predict=predict_residual_velocity,
    measure=measure_residual_velocity,
    tolerance=1e-8,
    instances=cases.setup,
    controls=[Control("there is no weight decay", cases.decaying)],
    given=("path",),
    dynamics=BOTH,
    title="how the bias grows",
    paper=PAPER,
)


def predict_away(setup: Setup) -> Claims:
    bias = bias_bound(problem_of(setup), setup.params)
    simple = math.exp(bias.log_simple) if bias.log_simple < 709 else math.inf
    # A bound of zero is one: errors are then counted by the size of the solution.
    size = max(float(np.linalg.norm(problem_of(setup).min_norm)), 1e-300)
    return {
        "distance": at_most(simple, scale=max(min(simple, 1e300), size)),
        "distance, sharper": at_most(bias.bound, scale=max(min(bias.bound, 1e300), size)),
    }


def measure_away(run: Run) -> Measurements:
    """The largest part of the predictor that the data do not see."""
    now = path(run)
    sizes = np.linalg.norm(now.U2 @ np.swapaxes(now.V, 1, 2), axis=(1, 2))
    return {"distance": sizes.max(), "distance, sharper": sizes.max()}


def shaken(key: int) -> Setup:
    """Noise that also moves what the data do not see, from the invariant set."""
    at = cases.projected(key)
    return cases.setup(
        key,
        at.params,
        Descent(0.01, Isotropic(6.0)),
        common.regression(at),
        until=Until(steps=1000),
        save_at=np.round(np.linspace(0, 1000, cases.SAVES)),
    )


EQ42 = Theorem(
    "imbalance.eq42",
    r"With $\theta = \sqrt{\lambda_1}\|E(0)\|_F/(\lambda_rc)$, at all times "
    r"$\|U_2V^T\|_F \le e^\theta\|Z_r(0)\|_F$, and sharper, "
    r"$\|U_2V^T\|_F \le \cosh\theta\,\|V(0)U_2^T\|_F + \sinh\theta\,\|U_1(0)U_2^T\|_F$.",
    hypotheses=[*PLAIN, IMBALANCED, STEP, small_step(growth_widening, BOUND)],
    predict=predict_away,
    measure=measure_away,
    tolerance=1e-9,
    instances=cases.rich_or_lazy,
    controls=[Control("there is no noise", shaken)],
    dynamics=BOTH,
    errata=[
        Erratum(
            "App. E, E(0) between (42) and (43)",
            r"$E(0) = W^TY - S^{-1/2}U_1V^T$, $\|E(0)\| \le \|Y\| + "
            r"\lambda_r^{-1/2}\|U_1V^T\|$",
            r"$E(0) = W^TY - \sqrt{S}U_1V^T$, $\|E(0)\|_F \le \|Y\|_F + "
            r"\sqrt{\lambda_1}\|U_1V^T\|_F$",
            "false",
            evidence=evidence.first_error,
            bound=True,
            quote=r"||E(0)||_{F} = ||W^{T}Y - \Sigma_{x}^{-1/2}U_{1}(0)V^{T}(0)||_{F}",
            note="(6) has the other exponent; with it λ1^½/λr^(3/2) in (43) and (44) becomes λ1/λr",
        ),
        Erratum(
            "App. E, start of the proof of Theorem 2, before (37)",
            r"$\|\Phi_2U_2V^T\|_F$ for the spectral norm",
            r"$\|\Phi_2U_2V^T\|_2$, as in the lines around it",
            "misprint",
            quote=r"&= \|\Phi_2 U_2(\infty)V^T(\infty)\|_F \\",
        ),
    ],
    title="a bound on the bias",
    paper=PAPER,
)


def _sized(setup: Setup) -> float:
    """The solution's norm; that of the start's layers where it is zero."""
    size = float(np.linalg.norm(problem_of(setup).min_norm))
    return size if size > 0 else float(np.sum(start(setup).Z ** 2))


def _off_set(setup: Setup) -> float:
    size = float(np.linalg.norm(start(setup).Z)) * float(np.linalg.norm(start(setup).U2))
    residual = float(np.linalg.norm(invariant_residual(problem_of(setup), setup.params)))
    return residual / size if size > 0 else 0.0


def predict_least_norm(setup: Setup) -> Claims:
    """The solution of least norm."""
    return {"theta": equals(problem_of(setup).min_norm, scale=_sized(setup))}


PROP1 = Theorem(
    "imbalance.prop1",
    r"If $V(0)U_2^T = 0$ and $U_1(0)U_2^T = 0$, gradient flow ends at the solution of least norm, "
    r"and so does descent with any step and any minibatches that converge.",
    hypotheses=[
        common.no_decay(),
        OF_DATA,
        DIES_OUT,
        SOMETHING,
        Hypothesis("VU2ᵀ = 0 and U1U2ᵀ = 0 at the start", _off_set, 1e-11),
        IMBALANCED,
    ],
    predict=predict_least_norm,
    measure=measure_end,
    tolerance=1e-8,
    instances=cases.projected,
    controls=[
        Control("U1U2ᵀ = 0: VU2ᵀ = 0 alone is not enough", cases.off_second),
        Control("the start is not zero, which is stationary", cases.nothing),
        Control("VU2ᵀ = 0 and U1U2ᵀ = 0 at the start", cases.setup),
    ],
    dynamics=BOTH,
    title="an invariant set that ends at least norm",
    paper=PAPER,
)


THEOREMS = (EQ14, PROP1, EQ16, EQ42)
