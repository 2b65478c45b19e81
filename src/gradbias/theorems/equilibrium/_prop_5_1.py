"""Matrix factorisation y = UWx: the flow of UᵀU − WWᵀ, and where it stops."""

import numpy as np

from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Isotropic
from ...numerics.host_rng import generator
from ...problems import Population, Regression
from ...theory.symmetry import factorisation_equilibrium, factorisation_flow, factorisation_residual
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Evidence,
    Measurements,
    Run,
    Setup,
    Theorem,
    common,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases
from ._errata import gradients, mean_step
from ._facts import decay, kappa, sgd
from ._facts_units import charges, pulls
from ._paper import PAPER

KAPPA = cases.LR / cases.S


def predict_flow(setup: Setup, run: Run) -> Claims:
    """d(UᵀU − WWᵀ)/dt at saves."""
    rates = kappa(setup), decay(setup), common.learning_rate(setup)
    path = cases.some(cases.path(run.data))
    flows = [factorisation_flow(setup.problem, *cases.layers(p), *rates) for p in path]
    return {"flow": np.asarray(flows)}


def measure_flow(run: Run) -> Measurements:
    """The same from gradients by autodiff; the engine's charge has the other sign."""
    setup = setup_of(run)
    path = cases.some(cases.path(run.data))
    flows = [cases.here(setup, p)["W1-W2"].total for p in path]
    return {"flow": -np.asarray(flows)}


def first_unit(key: int) -> tuple[float, float]:
    """The noise's part of a step of the first unit's charge: over all batches, and by theory."""
    problem = cases.data(key)
    params = cases.pair(key).params
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
    hypotheses=sgd(),
    predict=predict_flow,
    measure=measure_flow,
    tolerance=1e-10,
    instances=cases.pair,
    paper_size=cases.of_paper,
    controls=[
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
            "Proposition 5.1",
            r"$\dot C_B = "
            r"\sigma^2(\sum_i\mathrm{Tr}[\Sigma_{u_i}B]-\sum_j\mathrm{Tr}[\Sigma_{w_j}B])$",
            r"$\kappa = 2\sigma^2$ in front: the Hessian of $C_B$ is $2B$",
            "misprint",
            evidence=half,
            quote="˙CB(θt)=σ2⎛ ⎝d2 ∑ i=1Tr[Σ˜ui(θt)B]",
            note="App. B.4 takes B for the Hessian, too; (5) has it right.",
        ),
        Erratum(
            "Theorem 5.2, Γ below (13)",
            r"$\Gamma_W = E[\|r\|^2xx^\top]$, $\Gamma_U = E[\|x\|^2rr^\top]$",
            r"less $G^\top G$ and $GG^\top$; the same only where the gradient is 0",
            "false",
            evidence=uncentred,
            quote="where ΓW=E[∥r∥2xx⊺]+2γI,ΓU=E[∥x∥2rr⊺]+2γI.",
            note="Section 3 defines noise by its centred covariance.",
        ),
    ),
    paper=PAPER,
    title="the flow of a factorisation's charges",
    narrow=True,
)


def target(key: int) -> np.ndarray:
    """Some map that is not the minimiser."""
    return generator(key, "equilibrium target").standard_normal(cases.data(key).min_norm.T.shape)


def resting(key: int, correct: bool = True) -> Setup:
    """A start at the equilibrium of some V, or at the printed one."""
    rates = (KAPPA, cases.DECAY) if correct else (1.0, 2 * cases.DECAY)
    factors = factorisation_equilibrium(cases.data(key), cases.shape(key).h, target(key), *rates)
    return cases.pair(key, params=cases.rows(*factors))


def predict_rests(setup: Setup) -> Claims:
    """No flow, and what the factors make."""
    h = len(cases.layers(setup.params)[1])
    return {"flow": equals(np.zeros((h, h)), scale=pulls(setup, setup.params))}


def measure_rests(run: Run) -> Measurements:
    """The flow of all charges at the start, without the term of a finite step."""
    setup = setup_of(run)
    first = cases.path(run.data)[0]
    return {"flow": cases.here(setup, first, include_gd=False)["W1-W2"].total}


def balance(setup: Setup) -> float:
    """How far the start is from WΓWᵀ = UᵀΓU, by theory."""
    U, W = cases.layers(setup.params)
    return factorisation_residual(setup.problem, U, W, kappa(setup), decay(setup))


def printed_52(key: int) -> Evidence:
    """The residual of the flow, by gradients of samples, at the printed and at the corrected Γ."""
    residuals = []
    for correct in (False, True):
        setup = resting(key, correct)
        U, W = cases.layers(setup.params)
        each = gradients(common.regression(setup), setup.params)
        a, b = (g - g.mean(axis=0) for g in (each["W2"], each["W1"]))
        noise_U = np.einsum("nik,njk->ij", a, a) / len(a)
        noise_W = np.einsum("nij,nik->jk", b, b) / len(b)
        left = KAPPA * noise_U + 4 * cases.DECAY * W @ W.T
        right = KAPPA * noise_W + 4 * cases.DECAY * U.T @ U
        residuals.append(float(np.linalg.norm(left - right) / np.linalg.norm(left)))
    return Evidence(*residuals)


THM52 = Theorem(
    "equilibrium.thm5.2",
    r"The noise equilibrium of $y = UWx$ is where $W\Gamma_WW^\top = U^\top\Gamma_UU$ with "
    r"$\Gamma = \kappa\Gamma^{centred}+\gamma I$. Every $V$ has one, "
    r"$U = \Gamma_U^{-1/2}L\sqrt{S}F$, $W = F^\top\sqrt{S}R^\top\Gamma_W^{-1/2}$ with "
    r"$\Gamma_U^{1/2}V\Gamma_W^{1/2} = LSR^\top$, unique up to the frame $F$.",
    hypotheses=[
        *sgd(),
        kind("the start is at equilibrium", lambda s: balance(s) < 1e-8),
    ],
    predict=predict_rests,
    measure=measure_rests,
    tolerance=1e-10,
    instances=resting,
    controls=[Control("Γ has γS/η, not 2γ", lambda key: resting(key, False))],
    nets=(TwoLayer,),
    needs=cases.PARAMS,
    problems=(Regression, Population),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Theorem 5.2, below (13)",
            r"$\Gamma = E[\cdot]+2\gamma I$",
            r"$\Gamma = E[\cdot]+(\gamma S/\eta)I$, centred",
            "misprint",
            evidence=printed_52,
            quote="where ΓW=E[∥r∥2xx⊺]+2γI,ΓU=E[∥x∥2rr⊺]+2γI.",
            note="The proof's ηΣ' + γI is right for S = 1 only.",
        ),
    ),
    paper=PAPER,
    title="noise equilibrium of a factorisation",
    narrow=True,
)


THEOREMS = (PROP51, THM52)
