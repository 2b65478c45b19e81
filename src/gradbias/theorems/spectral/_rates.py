"""How fast: an exponential rate for any data, and Lemma C.8 for one output."""

import numpy as np

from ...dynamics import Flow
from ...theory.spectral import exponential_rate, mirror_rate_bound
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Measurements,
    Run,
    Setup,
    Theorem,
    at_least,
    at_most,
    excess,
    kind,
    setup_of,
)
from . import _errata as evidence
from . import _instances as cases
from ._facts import I_GAMMA, ONE_OUTPUT, PLAIN, gamma_of, problem_of, start, times_of
from ._paper import PAPER

FLOOR = 1e-18  # of the loss at the start: what an integrator in double precision leaves
DEEPEST = 30.0  # e-folds of the loss, well above that floor


def _first(setup: Setup) -> float:
    W1, W2, _ = start(setup)
    return float(problem_of(setup).excess()(W1 @ W2))


def predict_exponential(setup: Setup) -> Claims:
    """The mean rate from the start to every save at which the loss may be above the floor."""
    rate = min(exponential_rate(problem_of(setup), gamma_of(setup)), 1e300)
    t = times_of(setup)
    return {"mean rate": at_least(np.where((t > 0) & (rate * t < DEEPEST), rate, -np.inf))}


def measure_rates(run: Run) -> Measurements:
    t = times_of(setup_of(run))
    first = _first(setup_of(run))
    folds = -np.log(np.maximum(excess(run) / first, FLOOR))
    return {"mean rate": folds / np.where(t > 0, t, np.inf)}


MOVES = kind("the start is not at the minimum", lambda setup: _first(setup) > 0)


def rich_or_lazy(key: int) -> Setup:
    """Every other start is lazy: there the bound is nearly reached."""
    return cases.flow(key, gamma=cases.draw_gamma(key) * (1 if key % 2 else 20))


EXP_RATE = Theorem(
    "spectral.rate",
    r"Under $I_\gamma$ the loss falls at least as fast as "
    r"$L(t)-L^\star \le (L(0)-L^\star)e^{-4\gamma\lambda t}$, with $\lambda$ the smallest "
    r"non-zero eigenvalue of the Hessian of the loss in $\beta$.",
    hypotheses=[PLAIN, I_GAMMA, MOVES],
    predict=predict_exponential,
    measure=measure_rates,
    tolerance=1e-9,
    instances=rich_or_lazy,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.starved)],
    errata=[
        Erratum(
            "Eq (C.13)",
            r"$\frac{d}{dt}\operatorname{tr}(R^TR) \le -2\gamma\lambda\operatorname{tr}(R^TR)$",
            r"$\frac{d}{dt}(L-L^\star) \le -4\gamma\lambda(L-L^\star)$",
            "false",
            evidence=evidence.force_rises,
            bound=True,
            quote=r"\dot{\text{tr}}(\mathbf{R}^\top \mathbf{R}) \leq -2\lambda_{\min}(X^\top X) "
            r"\gamma \text{tr}(\mathbf{R} \mathbf{R}^\top). \quad (\text{C.13})",
            note="tr ABC ≥ λmin(A)λmin(B) tr C is false for three positive matrices; the "
            "integrated form for tr RᵀR was never seen to fail, but is not proved",
        )
    ],
    title="an exponential rate",
    dynamics=(Flow,),
    paper=PAPER,
)


def predict_mirror(setup: Setup) -> Claims:
    bound = mirror_rate_bound(problem_of(setup), gamma_of(setup), times_of(setup))
    return {"excess loss": at_most(np.maximum(bound, FLOOR * _first(setup)))}


def measure_losses(run: Run) -> Measurements:
    return {"excess loss": excess(run)}


LEMMA_C_8 = Theorem(
    "spectral.lemmaC.8",
    r"With one output and under $I_\gamma$, $L(t)-L^\star \le "
    r"D_{\psi}(\beta^\star, 0)/(2\sqrt{2\gamma}\,t)$ with the Bregman divergence of "
    r"$\psi_\gamma$: a larger init is faster, a smaller one has more bias.",
    hypotheses=[ONE_OUTPUT, PLAIN, I_GAMMA],
    predict=predict_mirror,
    measure=measure_losses,
    tolerance=1e-9,
    instances=lambda key: cases.flow(key, k=1),
    paper_size=cases.paper_one_output,
    controls=[Control("the init is I_γ", lambda key: cases.starved(key, k=1))],
    never_tight="no start comes within a factor 2 of it: for one eigenvalue λ of the Hessian the "
    "loss is at most 0.40 of it, at γ = 0.2|β*|, and in the lazy limit x·e⁻ˣ of it, x = 4γλt, at "
    "most 1/e; at γ = 1e-4|β*| it is 0.07",
    errata=[
        Erratum(
            "Lemma C.8",
            r"$L \le D_\psi/(\sqrt{2\gamma}t)$",
            r"$L \le D_\psi/(2\sqrt{2\gamma}t)$, from $\langle\nabla "
            r"L,\beta-\beta^\star\rangle = 2L$",
            "loose",
            quote=r"\mathcal{L}(\beta(t)) \leq \frac{D_{\psi_\gamma}(\beta_*, "
            r"\beta_0)}{\sqrt{2\gamma} t}.",
            note="the printed bound holds",
        ),
        Erratum(
            "Lemma C.8, proof",
            r"$\langle\nabla L,\beta-\beta^\star\rangle \le L$",
            r"$\langle\nabla L,\beta-\beta^\star\rangle \ge L$, as the next line uses it; "
            "it is $2L$",
            "misprint",
            quote=r"\langle \nabla \mathcal{L}(\beta), \beta - \beta_* \rangle \leq "
            r"\mathcal{L}(\beta) - \mathcal{L}(\beta_*) = \mathcal{L}(\beta).",
        ),
        Erratum(
            "Section 3.2, speed and bias",
            r"$L = O(1/(\gamma t))$",
            r"$L = O(1/(\sqrt{\gamma}t))$ for $\gamma \ll |\beta^\star|$",
            "loose",
            quote=r"$\mathcal{L}(\beta(t)) = O(1/\gamma t)$",
            note="D_ψ goes to ⅔|β*|^{3/2} as γ → 0, and is at most |β*|²/√(8γ)",
        ),
    ],
    title="the rate of the mirror flow",
    dynamics=(Flow,),
    paper=PAPER,
)
