"""Lemmas 3.1 to 3.3 and C.3: the subspace, the invariant, and the dual variable."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...nets import TwoLayer
from ...theory.spectral import alpha_of, alpha_velocity, beta_of, beta_velocity, limit_gram
from .._claims import equals
from .._erratum import Erratum
from .._theorem import Control, Theorem
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    ABOUT,
    I_GAMMA,
    OF_DATA,
    PLAIN,
    QUIET,
    STABLE,
    STEADY,
    STEPS,
    gamma_of,
    problem_of,
    sized,
    start,
)
from ._finite_step import small_step
from ._measurements import betas, duals, imbalance, motion, path, transposed


def frame_of(setup: Setup) -> np.ndarray:
    """P of W1(0) = √(2γ)P."""
    return start(setup).W1 / np.sqrt(2 * gamma_of(setup))


def _with_small(setup: Setup) -> dict[str, Setup]:
    P = frame_of(setup)
    d, k = setup.problem.d, setup.problem.k
    params = {"W1": start(setup).W1 @ P.T, "W2": P @ start(setup).W2}
    return {"run": setup, "small": setup.replace(net=TwoLayer(d, k, d), params=params)}


def _lifted(setup: Setup, runs: Any) -> dict[str, Any]:
    P, small = frame_of(setup), path(runs["small"])
    unseen = equals(0.0, scale=np.linalg.norm(start(setup).W1))
    return {**sized({"W1": small.W1 @ P, "W2": P.T @ small.W2}), "unseen": unseen}


def _layers(runs: Any) -> dict[str, Any]:
    layers, basis = path(runs["run"]), runs["run"].setup.problem.row_space
    moved = layers.W1 - layers.W1[0]
    moved = moved - basis @ (basis.T @ moved)
    return {"W1": layers.W1, "W2": layers.W2, "unseen": np.linalg.norm(moved, axis=(1, 2)).max()}


LEMMA_3_1 = Theorem(
    "spectral.lemma3.1",
    r"From $I_\gamma$ the layers are $W_1 = Z_1P$ and $W_2 = P^TZ_2$ at every time, where "
    r"$(Z_1, Z_2)$ is the same flow of a net of width $d$ from $Z_1(0) = \sqrt{2\gamma}I$, "
    r"$Z_2(0) = 0$; the part of $W_1$ that the data do not see never moves.",
    [PLAIN, QUIET, I_GAMMA],
    _lifted,
    _layers,
    {"W1": 1e-9, "W2": 1e-9, "unseen": 1e-10},
    cases.flow,
    [Control("W2 is zero at the start", cases.second_layer)],
    runs=_with_small,
    given=("width-d net",),
    errata=[
        Erratum(
            "Lemma 3.1, proof",
            r"$Z_1(0) = I_d$",
            r"$Z_1(0) = \sqrt{2\gamma}I_d$",
            "numeric",
            evidence.start_of_z,
        )
    ],
    title="the layers stay in the span of the init",
    dynamics=STEPS,
    **ABOUT,
)


def _start_imbalance(setup: Setup) -> dict[str, Any]:
    W1, W2, _ = start(setup)
    return {"imbalance": np.repeat(imbalance(W1, W2)[None], len(setup.save_at), axis=0)}


def _imbalances(runs: Any) -> dict[str, Any]:
    return {"imbalance": imbalance(*path(runs["run"]))}


LEMMA_3_2 = Theorem(
    "spectral.lemma3.2",
    r"From $I_\gamma$ the imbalance $W_1^TW_1 - W_2W_2^T$ is $2\gamma P^TP$ at every time.",
    [PLAIN, QUIET, I_GAMMA, STEADY, STABLE, small_step("imbalance")],
    _start_imbalance,
    _imbalances,
    1e-10,
    cases.flow,
    [Control("the step is infinitesimal", cases.descent)],
    errata=[
        Erratum(
            "Lemma C.6, proof",
            r"$Z_1^TZ_1 = 2\gamma I + Z_2^TZ_2$",
            r"$Z_1^TZ_1 = 2\gamma I + Z_2Z_2^T$",
            "ill-typed",
            note="a (k, k) matrix is added to a (d, d) one",
        )
    ],
    title="the imbalance is conserved",
    dynamics=STEPS,
    **ABOUT,
)


def _dual(setup: Setup, runs: Any) -> dict[str, Any]:
    problem, gamma = problem_of(setup), gamma_of(setup)
    layers = path(runs["run"])
    alpha, beta = duals(layers), betas(runs["run"])
    found = {
        "alpha": [alpha_of(b, gamma) for b in beta],
        "beta": [beta_of(a, gamma) for a in alpha],
        "M": [limit_gram(b, gamma).M for b in beta],
        "N": [limit_gram(b, gamma).N for b in beta],
        "alpha velocity": [alpha_velocity(problem, a, gamma) for a in alpha],
        "beta velocity": [beta_velocity(problem, b, gamma) for b in beta],
    }
    return sized({name: np.stack(values) for name, values in found.items()})


def _primal(runs: Any) -> dict[str, Any]:
    layers, moves = path(runs["run"]), motion(runs["run"])
    alpha, gram = duals(layers), layers.W1 @ transposed(layers.W1)
    turn = moves.W1 @ transposed(layers.W1)
    rate = moves.beta - (turn + transposed(turn)) @ alpha
    return {
        "alpha": alpha,
        "beta": betas(runs["run"]),
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
    [PLAIN, QUIET, I_GAMMA],
    _dual,
    _primal,
    1e-8,
    cases.flow,
    [Control("the init is I_γ", cases.anisotropic)],
    given=("params",),
    errata=[
        Erratum(
            "Lemma 3.3, main text",
            r"$\dot\beta = (I-\alpha\alpha^T)^{-1}\alpha$",
            r"$\beta = 2\gamma(I-\alpha\alpha^T)^{-1}\alpha$",
            "numeric",
            evidence.predictor_of_dual,
            note="Lemma C.2 has it right",
        ),
        Erratum(
            "Lemma C.6, Woodbury",
            r"$(I-\alpha\alpha^T)^{-1} = I - \alpha(I-\alpha^T\alpha)^{-1}\alpha^T$",
            r"$(I-\alpha\alpha^T)^{-1} = I + \alpha(I-\alpha^T\alpha)^{-1}\alpha^T$",
            "numeric",
            evidence.woodbury,
        ),
    ],
    title="the dual variable and its equation",
    dynamics=(STEPS[0],),
    **ABOUT,
)


def _outside(runs: Any) -> dict[str, Any]:
    run = runs["run"]
    basis, layers = run.setup.problem.row_space, path(run)
    found = {"alpha": duals(layers), "beta": layers.beta}
    size = {name: np.abs(value).max() or 1.0 for name, value in found.items()}
    return {
        name: np.abs(value - basis @ (basis.T @ value)).max() / size[name]
        for name, value in found.items()
    }


LEMMA_C_3 = Theorem(
    "spectral.lemmaC.3",
    r"From $I_\gamma$ the columns of $\alpha$ and of $\beta$ lie in the span of $X^T$ at every "
    r"time, of the flow and of descent with any step and any noise in the data.",
    [PLAIN, OF_DATA, I_GAMMA],
    lambda setup: {"alpha": equals(0.0, scale=1.0), "beta": equals(0.0, scale=1.0)},
    _outside,
    1e-10,
    cases.flow,
    [Control("the init is I_γ", cases.anisotropic)],
    errata=[
        Erratum(
            "Lemma C.3 and Prop C.5",
            r"$\operatorname{Ker}(X^T)$ and $\operatorname{span}(X)$",
            r"$\operatorname{Ker}(X)$ and $\operatorname{span}(X^T)$",
            "ill-typed",
            note="vectors of n numbers in place of d",
        )
    ],
    title="the dual variable stays in span Xᵀ",
    dynamics=STEPS,
    **ABOUT,
)
