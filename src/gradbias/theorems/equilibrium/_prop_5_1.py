"""Matrix factorisation y = UWx: the flow of UᵀU − WWᵀ, and where it stops."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Isotropic
from ...numerics.host_rng import generator
from ...problems import Population, Regression
from ...theory.symmetry import factorisation_equilibrium, factorisation_flow, factorisation_residual
from .. import _shared_hypotheses as common
from .._claims import equals
from .._erratum import Erratum, Evidence
from .._hypothesis import kind
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Theorem
from . import _instances as cases
from ._errata import gradients, mean_step
from ._facts import decay, kappa, sgd
from ._facts_units import charges, pulls

KAPPA = cases.LR / cases.S


def told_flow(setup: Setup, runs: Any) -> dict[str, Any]:
    """d(UᵀU − WWᵀ)/dt at saves."""
    rates = kappa(setup), decay(setup), common.learning_rate(setup)
    path = cases.some(cases.path(runs["run"].data))
    found = [factorisation_flow(setup.problem, *cases.layers(p), *rates) for p in path]
    return {"flow": np.asarray(found)}


def seen_flow(runs: Any) -> dict[str, Any]:
    """The same from gradients by autodiff; the engine's charge has the other sign."""
    setup = runs["run"].setup
    path = cases.some(cases.path(runs["run"].data))
    flows = [cases.here(setup, p)["W1-W2"].total for p in path]
    return {"flow": -np.asarray(flows)}


def first_unit(key: int) -> tuple[float, float]:
    """The noise's part of a step of the first unit's charge: over all batches, and by theory."""
    problem, params = cases.data(key), cases.pair(key).params
    truth = float(mean_step(problem, params, cases.LR, 0.0).noise[0])
    flow = factorisation_flow(problem, *cases.layers(params), KAPPA)[0, 0]
    return truth, -cases.LR * float(flow)


def half(key: int) -> Evidence:
    """Half of the noise term."""
    truth, right = first_unit(key)
    return Evidence(abs(right / 2 / truth - 1), abs(right / truth - 1))


def uncentred(key: int) -> Evidence:
    """Second moments in place of covariances."""
    truth, right = first_unit(key)
    each = gradients(cases.data(key), cases.pair(key).params)
    wrong = cases.LR * KAPPA * float(charges(each)[:, 0].mean())
    return Evidence(abs(wrong / truth - 1), abs(right / truth - 1))


PROP51 = Theorem(
    "equilibrium.prop5.1",
    r"For $y = UWx$ all charges of $U \to UB$, $W \to B^{-1}W$ are entries of $U^\top U - "
    r"WW^\top$, "
    r"which moves by $4\kappa(W\Gamma_WW^\top - U^\top\Gamma_UU) - 4\gamma(U^\top U-WW^\top)$ "
    r"and the "
    r"term of a finite step, with $\Gamma_W = E[\|r\|^2xx^\top] - G^\top G$, "
    r"$\Gamma_U = E[\|x\|^2rr^\top] - GG^\top$, $G = E[rx^\top]$.",
    sgd(),
    told_flow,
    seen_flow,
    1e-10,
    cases.pair,
    [
        Control(
            "the noise is that of minibatches",
            lambda key: cases.pair(key, noise=Isotropic(0.5)),
        )
    ],
    nets=(TwoLayer,),
    needs=cases.PARAMS,
    given=("path",),
    problems=(Regression, Population),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Prop. 5.1",
            r"$\dot C_B = "
            r"\sigma^2(\sum_i\mathrm{Tr}[\Sigma_{u_i}B]-\sum_j\mathrm{Tr}[\Sigma_{w_j}B])$",
            r"$\kappa = 2\sigma^2$ in front: the Hessian of $C_B$ is $2B$",
            "numeric",
            half,
        ),
        Erratum(
            "Eq (12)",
            r"$\Gamma_W = E[\|r\|^2xx^\top]$, $\Gamma_U = E[\|x\|^2rr^\top]$",
            r"less $G^\top G$ and $GG^\top$; the same only where the gradient is 0",
            "numeric",
            uncentred,
        ),
    ),
    source=SOURCE,
    title="the flow of a factorisation's charges",
    narrow=True,
)


def target(key: int) -> np.ndarray:
    """Some map that is not the minimiser."""
    return generator(key, "equilibrium target").standard_normal((cases.K, cases.D))


def resting(key: int, correct: bool = True) -> Setup:
    """A start at the equilibrium of some V, or at the printed one."""
    rates = (KAPPA, cases.DECAY) if correct else (1.0, 2 * cases.DECAY)
    found = factorisation_equilibrium(cases.data(key), cases.H, target(key), *rates)
    return cases.pair(key, params=cases.rows(*found))


def rests(setup: Setup) -> dict[str, Any]:
    """No flow, and what the factors make."""
    h = len(cases.layers(setup.params)[1])
    return {"flow": equals(np.zeros((h, h)), scale=pulls(setup, setup.params))}


def seen_rests(runs: Any) -> dict[str, Any]:
    """The flow of all charges at the start, without the term of a finite step."""
    setup, first = runs["run"].setup, cases.path(runs["run"].data)[0]
    return {"flow": cases.here(setup, first, include_gd=False)["W1-W2"].total}


def balance(setup: Setup) -> float:
    """How far the start is from WΓWᵀ = UᵀΓU, by theory."""
    U, W = cases.layers(setup.params)
    return factorisation_residual(setup.problem, U, W, kappa(setup), decay(setup))


def printed_52(key: int) -> Evidence:
    """The residual of the flow, by gradients of samples, at the printed and at the corrected Γ."""
    found = []
    for correct in (False, True):
        setup = resting(key, correct)
        U, W = cases.layers(setup.params)
        each = gradients(setup.problem, setup.params)
        a, b = (g - g.mean(axis=0) for g in (each["W2"], each["W1"]))
        noise_U = np.einsum("nik,njk->ij", a, a) / len(a)
        noise_W = np.einsum("nij,nik->jk", b, b) / len(b)
        left = KAPPA * noise_U + 4 * cases.DECAY * W @ W.T
        right = KAPPA * noise_W + 4 * cases.DECAY * U.T @ U
        found.append(float(np.linalg.norm(left - right) / np.linalg.norm(left)))
    return Evidence(*found)


THM52 = Theorem(
    "equilibrium.thm5.2",
    r"The noise equilibrium of $y = UWx$ is where $W\Gamma_WW^\top = U^\top\Gamma_UU$ with "
    r"$\Gamma = \kappa\Gamma^{centred}+\gamma I$. Every $V$ has one, "
    r"$U = \Gamma_U^{-1/2}L\sqrt{S}F$, $W = F^\top\sqrt{S}R^\top\Gamma_W^{-1/2}$ with "
    r"$\Gamma_U^{1/2}V\Gamma_W^{1/2} = LSR^\top$, unique up to the frame $F$.",
    [
        *sgd(),
        kind("the start is at equilibrium", lambda s: balance(s) < 1e-8),
    ],
    rests,
    seen_rests,
    1e-10,
    resting,
    [Control("Γ has γS/η, not 2γ", lambda key: resting(key, False))],
    nets=(TwoLayer,),
    needs=cases.PARAMS,
    problems=(Regression, Population),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Thm 5.2, Eq (13)",
            r"$\Gamma = E[\cdot]+2\gamma I$",
            r"$\Gamma = E[\cdot]+(\gamma S/\eta)I$, centred",
            "numeric",
            printed_52,
            "The proof's ηΣ' + γI is right for S = 1 only.",
        ),
    ),
    source=SOURCE,
    title="noise equilibrium of a factorisation",
    narrow=True,
)


THEOREMS = (PROP51, THM52)
