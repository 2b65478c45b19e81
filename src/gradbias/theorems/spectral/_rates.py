"""How fast: an exponential rate for any data, and Lemma C.8 for one output."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...dynamics import Flow
from ...theory.spectral import exponential_rate, mirror_rate_bound
from .._claims import at_most
from .._erratum import Erratum
from .._shared_measurements import excess
from .._theorem import Control, Theorem
from . import _errata as evidence
from . import _instances as cases
from ._facts import ABOUT, I_GAMMA, ONE_OUTPUT, PLAIN, gamma_of, problem_of, start, times_of

FLOOR = 1e-18  # of the loss at the start: what an integrator in double precision leaves


def _first(setup: Setup) -> float:
    W1, W2, _ = start(setup)
    return float(problem_of(setup).excess()(W1 @ W2))


def _bounded(setup: Setup, bound: np.ndarray) -> dict[str, Any]:
    return {"excess loss": at_most(np.maximum(bound, FLOOR * _first(setup)))}


def _exponential(setup: Setup) -> dict[str, Any]:
    rate = min(exponential_rate(problem_of(setup), gamma_of(setup)), 1e300)
    return _bounded(
        setup, _first(setup) * np.exp(-rate * np.minimum(times_of(setup), 700.0 / rate))
    )


def _losses(runs: Any) -> dict[str, Any]:
    return {"excess loss": excess(runs["run"])}


EXP_RATE = Theorem(
    "spectral.rate",
    r"Under $I_\gamma$ the loss falls at least as fast as "
    r"$L(t)-L^\star \le (L(0)-L^\star)e^{-4\gamma\lambda t}$, with $\lambda$ the smallest "
    r"non-zero eigenvalue of the Hessian of the loss in $\beta$.",
    [PLAIN, I_GAMMA],
    _exponential,
    _losses,
    1e-9,
    cases.flow,
    [Control("the init is I_γ", cases.starved)],
    errata=[
        Erratum(
            "Eq (C.13)",
            r"$\frac{d}{dt}\operatorname{tr}(R^TR) \le -2\gamma\lambda\operatorname{tr}(R^TR)$",
            r"$\frac{d}{dt}(L-L^\star) \le -4\gamma\lambda(L-L^\star)$",
            "bound",
            evidence.force_rises,
            note="tr ABC ≥ λmin(A)λmin(B) tr C is false for three positive matrices; the "
            "integrated form for tr RᵀR was never seen to fail, but is not proved",
        )
    ],
    title="an exponential rate",
    dynamics=(Flow,),
    **ABOUT,
)


def _mirror(setup: Setup) -> dict[str, Any]:
    return _bounded(setup, mirror_rate_bound(problem_of(setup), gamma_of(setup), times_of(setup)))


LEMMA_C_8 = Theorem(
    "spectral.lemmaC.8",
    r"With one output and under $I_\gamma$, $L(t)-L^\star \le "
    r"D_{\psi}(\beta^\star, 0)/(2\sqrt{2\gamma}\,t)$ with the Bregman divergence of "
    r"$\psi_\gamma$: a larger init is faster, a smaller one has more bias.",
    [ONE_OUTPUT, PLAIN, I_GAMMA],
    _mirror,
    _losses,
    1e-9,
    lambda key: cases.flow(key, k=1),
    [Control("the init is I_γ", lambda key: cases.starved(key, k=1))],
    errata=[
        Erratum(
            "Lemma C.8",
            r"$L \le D_\psi/(\sqrt{2\gamma}t)$, from "
            r"$\langle\nabla L,\beta-\beta^\star\rangle \le L$",
            r"$L \le D_\psi/(2\sqrt{2\gamma}t)$, from "
            r"$\langle\nabla L,\beta-\beta^\star\rangle = 2L$",
            "loose",
            note="the printed bound holds; the inequality in its proof points the wrong way",
        ),
        Erratum(
            "Section 3, speed and bias",
            r"$L = O(1/(\gamma t))$",
            r"$L = O(1/(\sqrt{\gamma}t))$ for $\gamma \ll |\beta^\star|$",
            "loose",
            note="D_ψ goes to ⅔|β*|^{3/2} as γ → 0, and is at most |β*|²/√(8γ)",
        ),
    ],
    title="the rate of the mirror flow",
    dynamics=(Flow,),
    **ABOUT,
)
