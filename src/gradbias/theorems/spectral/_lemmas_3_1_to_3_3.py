"""Lemmas 3.1 to 3.3 and C.3: the subspace, the invariant, and the dual variable."""

from collections.abc import Mapping

import numpy as np

from ...nets import TwoLayer
from ...theory.spectral import alpha_of, alpha_velocity, beta_of, beta_velocity, limit_gram
from ...theory.spectral.printed import printed_beta_of
from ..prelude import Claims, Control, Erratum, Measurements, Run, Setup, Theorem, equals, setup_of
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    I_GAMMA,
    OF_DATA,
    PLAIN,
    QUIET,
    STEPS,
    TO_THE_END,
    gamma_of,
    problem_of,
    sized,
    start,
)
from ._finite_step import small_step
from ._measurements import betas, duals, forces, imbalance, motion, path, transposed
from ._paper import PAPER


def frame_of(setup: Setup) -> np.ndarray:
    """P of W1(0) = √(2γ)P."""
    return start(setup).W1 / np.sqrt(2 * gamma_of(setup))


def _with_small(setup: Setup) -> dict[str, Setup]:
    P = frame_of(setup)
    d = setup.problem.d
    k = setup.problem.k
    params = {"W1": start(setup).W1 @ P.T, "W2": P @ start(setup).W2}
    return {"run": setup, "small": setup.replace(net=TwoLayer(d, k, d), params=params)}


def predict_lifted(setup: Setup, runs: Mapping[str, Run]) -> Claims:
    P = frame_of(setup)
    small = path(runs["small"])
    unseen = equals(0.0, scale=np.linalg.norm(start(setup).W1))
    return {**sized({"W1": small.W1 @ P, "W2": P.T @ small.W2}), "unseen": unseen}


def measure_lifted(runs: Mapping[str, Run]) -> Measurements:
    layers = path(runs["run"])
    basis = problem_of(setup_of(runs["run"])).row_space
    moved = layers.W1 - layers.W1[0]
    moved = moved - basis @ (basis.T @ moved)
    return {"W1": layers.W1, "W2": layers.W2, "unseen": np.linalg.norm(moved, axis=(1, 2)).max()}


LEMMA_3_1 = Theorem(
    "spectral.lemma3.1",
    r"From $I_\gamma$ the layers are $W_1 = Z_1P$ and $W_2 = P^TZ_2$ at every time, where "
    r"$(Z_1, Z_2)$ is the same flow of a net of width $d$ from $Z_1(0) = \sqrt{2\gamma}I$, "
    r"$Z_2(0) = 0$; the part of $W_1$ that the data do not see never moves.",
    hypotheses=[PLAIN, QUIET, I_GAMMA],
    predict=predict_lifted,
    measure=measure_lifted,
    tolerance={"W1": 1e-9, "W2": 1e-9, "unseen": 1e-10},
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("W2 is zero at the start", cases.second_layer)],
    runs=_with_small,
    given=("width-d net",),
    errata=[
        Erratum(
            "Lemma 3.1, proof",
            r"$Z_1(0) = I_d$",
            r"$Z_1(0) = \sqrt{2\gamma}I_d$",
            "misprint",
            evidence=evidence.start_of_z,
            quote=r"\mathbf{Z}_1(0) = \sqrt{2\gamma} P P^\top = \mathbf{I}_d",
        )
    ],
    title="the layers stay in the span of the init",
    dynamics=STEPS,
    paper=PAPER,
)


def predict_start_imbalance(setup: Setup) -> Claims:
    W1, W2, _ = start(setup)
    return {"imbalance": np.repeat(imbalance(W1, W2)[None], len(setup.save_at), axis=0)}


def measure_start_imbalance(run: Run) -> Measurements:
    return {"imbalance": imbalance(*path(run))}


LEMMA_3_2 = Theorem(
    "spectral.lemma3.2",
    r"From $I_\gamma$ the imbalance $W_1^TW_1 - W_2W_2^T$ is $2\gamma P^TP$ at every time.",
    hypotheses=[*TO_THE_END, small_step("imbalance")],
    predict=predict_start_imbalance,
    measure=measure_start_imbalance,
    tolerance=1e-10,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the step is small", lambda key: cases.descent(key, lr=0.25))],
    errata=[
        Erratum(
            "Lemma C.6, proof",
            r"$Z_1^TZ_1 = 2\gamma I + Z_2^TZ_2$",
            r"$Z_1^TZ_1 = 2\gamma I + Z_2Z_2^T$",
            "misprint",
            quote=r"\mathbf{Z}_1^\top \mathbf{Z}_1 &= 2\gamma \mathbf{I}_d + \mathbf{Z}_2^\top "
            r"\mathbf{Z}_2",
            note="a (k, k) matrix is added to a (d, d) one; (C.8) has it right",
        )
    ],
    title="the imbalance is conserved",
    dynamics=STEPS,
    paper=PAPER,
)


def predict_dual(setup: Setup, run: Run) -> Claims:
    problem = problem_of(setup)
    gamma = gamma_of(setup)
    layers = path(run)
    alpha = duals(layers)
    beta = betas(run)
    series = {
        "alpha": [alpha_of(b, gamma) for b in beta],
        "beta": [beta_of(a, gamma) for a in alpha],
        "M": [limit_gram(b, gamma).M for b in beta],
        "N": [limit_gram(b, gamma).N for b in beta],
        "alpha velocity": [alpha_velocity(problem, a, gamma) for a in alpha],
        "beta velocity": [beta_velocity(problem, b, gamma) for b in beta],
    }
    return sized({name: np.stack(values) for name, values in series.items()})


def measure_dual(run: Run) -> Measurements:
    layers = path(run)
    moves = motion(run)
    alpha = duals(layers)
    gram = layers.W1 @ transposed(layers.W1)
    turn = moves.W1 @ transposed(layers.W1)
    rate = moves.beta - (turn + transposed(turn)) @ alpha
    return {
        "alpha": alpha,
        "beta": betas(run),
        "M": gram,
        "N": transposed(layers.W2) @ layers.W2,
        "alpha velocity": np.linalg.solve(gram, rate),
        "beta velocity": moves.beta,
    }


LEMMA_3_3 = Theorem(
    "spectral.lemma3.3",
    r"Under $I_\gamma$ and with $R = -\nabla_\beta L$, the dual variable "
    r"$\alpha = (W_1^+)^TW_2$ obeys $\dot\alpha = R - \alpha R^T\alpha$ and makes the "
    r"predictor, $\beta = 2\gamma(I-\alpha\alpha^T)^{-1}\alpha$. So $\beta$ alone determines "
    r"$W_1W_1^T = \gamma I + \sqrt{\gamma^2I+\beta\beta^T}$ and obeys an equation of its own.",
    hypotheses=[PLAIN, QUIET, I_GAMMA],
    predict=predict_dual,
    measure=measure_dual,
    tolerance=1e-8,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    terms={"αRᵀα": lambda setup, run: {"alpha velocity": forces(run, path(run).beta)}},
    given=("params",),
    errata=[
        Erratum(
            "Lemma 3.3, main text",
            r"$\dot\beta = (I-\alpha\alpha^T)^{-1}\alpha$",
            r"$\beta = 2\gamma(I-\alpha\alpha^T)^{-1}\alpha$",
            "misprint",
            evidence=evidence.predictor_of_dual,
            quote=r"\dot{\beta} = (1 - \alpha \alpha^\top)^{-1} \alpha.",
            predict=lambda setup, run: {
                "beta": np.stack([printed_beta_of(a) for a in duals(path(run))])
            },
            note="Lemma C.2 has it right",
        ),
        Erratum(
            "Lemma C.6, Woodbury",
            r"$(I-\alpha\alpha^T)^{-1} = I - \alpha(I-\alpha^T\alpha)^{-1}\alpha^T$",
            r"$(I-\alpha\alpha^T)^{-1} = I + \alpha(I-\alpha^T\alpha)^{-1}\alpha^T$",
            "misprint",
            evidence=evidence.woodbury,
            quote=r"(\mathbf{I} - \alpha \alpha^\top)^{-1} &= \mathbf{I} - \alpha (\mathbf{I} - "
            r"\alpha^\top \alpha)^{-1} \alpha^\top",
            note="Sherman-Morrison in Lemma C.7 has the other sign.",
        ),
    ],
    title="the dual variable and its equation",
    dynamics=(STEPS[0],),
    paper=PAPER,
)


def measure_outside(run: Run) -> Measurements:
    basis = problem_of(setup_of(run)).row_space
    layers = path(run)
    columns = {"alpha": duals(layers), "beta": layers.beta}
    size = {name: np.abs(value).max() or 1.0 for name, value in columns.items()}
    return {
        name: np.abs(value - basis @ (basis.T @ value)).max() / size[name]
        for name, value in columns.items()
    }


LEMMA_C_3 = Theorem(
    "spectral.lemmaC.3",
    r"From $I_\gamma$ the columns of $\alpha$ and of $\beta$ lie in the span of $X^T$ at every "
    r"time, of the flow and of descent with any step and any noise in the data.",
    hypotheses=[PLAIN, OF_DATA, I_GAMMA],
    predict=lambda setup: {"alpha": equals(0.0, scale=1.0), "beta": equals(0.0, scale=1.0)},
    measure=measure_outside,
    tolerance=1e-10,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    errata=[
        Erratum(
            "Lemma C.3 and Proposition C.5",
            r"$\operatorname{Ker}(X^T)$ and $\operatorname{span}(X)$",
            r"$\operatorname{Ker}(X)$ and $\operatorname{span}(X^T)$",
            "misprint",
            quote=r"(P1) \quad (\mathbf{Z}_1^*)^{-\top} \nabla \Psi_2(\mathbf{Z}_2^*) \in "
            r"\text{span}(X),",
            note="vectors of n numbers in place of d; Lemma C.3 itself has span(Xᵀ)",
        ),
    ],
    title="the dual variable stays in span Xᵀ",
    dynamics=STEPS,
    paper=PAPER,
)
