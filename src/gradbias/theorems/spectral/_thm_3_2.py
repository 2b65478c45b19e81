"""Theorem 3.2, Lemmas C.7 and C.13: mirror flows of the singular values and of one output."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...dynamics import Flow
from ...theory.potentials import singular_value_potential, spectral_scalar_potential
from ...theory.spectral import singular_value_velocity
from .._erratum import Erratum
from .._hypothesis import Hypothesis
from .._theorem import Control, Theorem
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    ABOUT,
    DIES_OUT,
    I_GAMMA,
    OF_DATA,
    ONE_OUTPUT,
    PLAIN,
    STEPS,
    gamma_of,
    problem_of,
    sized,
    star,
)
from ._measurements import betas, ended, forces, motion, path, svdvals

APART = 1e-4  # closer singular values have no vectors of their own


def _with_vectors(beta: np.ndarray) -> np.ndarray:
    """The saves at which the singular values are apart from each other and from zero."""
    s = svdvals(beta)
    gaps = np.abs(np.diff(s, axis=1, append=0.0)).min(axis=1)
    return gaps > APART * np.maximum(s[:, 0], 1e-300)


def _velocities(setup: Setup, runs: Any) -> dict[str, Any]:
    beta = betas(runs["run"])
    found = [
        singular_value_velocity(problem_of(setup), b, gamma_of(setup)).velocity
        for b in beta[_with_vectors(beta)]
    ]
    return sized({"velocity": np.reshape(found, (-1, min(beta.shape[1:])))})


def _measured_velocities(runs: Any) -> dict[str, Any]:
    run = runs["run"]
    keep = _with_vectors(betas(run))
    U, _, Vt = np.linalg.svd(path(run).beta[keep], full_matrices=False)
    return {"velocity": np.einsum("tji,tjk,tik->ti", U, motion(run).beta[keep], Vt)}


THM_3_2_A = Theorem(
    "spectral.thm3.2a",
    r"Under $I_\gamma$ the singular values of the predictor follow a mirror flow, "
    r"$d\,\nabla\Psi_\gamma(\sigma)_i = u_i^TRv_i\,dt$ with "
    r"$\Psi_\gamma(D) = \frac{1}{2}\operatorname{tr}[D\,\operatorname{asinh}(D/\gamma) - "
    r"\sqrt{D^2+\gamma^2}]$: $\dot\sigma_i = 2\sqrt{\sigma_i^2+\gamma^2}\,u_i^TRv_i$.",
    [PLAIN, I_GAMMA],
    _velocities,
    _measured_velocities,
    1e-8,
    cases.flow,
    [Control("the init is I_γ", cases.anisotropic)],
    given=("theta",),
    errata=[
        Erratum(
            "Theorem 3.2a",
            r"$\Psi_\gamma(D) = \operatorname{tr}(\frac{1}{2}D\,\operatorname{asinh}(D/\gamma) - "
            r"\sqrt{D^2+\gamma^2})$",
            r"$\Psi_\gamma(D) = \frac{1}{2}\operatorname{tr}(D\,\operatorname{asinh}(D/\gamma) - "
            r"\sqrt{D^2+\gamma^2})$",
            "numeric",
            evidence.mirror_gradient,
        ),
        Erratum(
            "Lemma C.13, last line",
            r"$\nabla\Psi_\gamma = \operatorname{asinh}(D/\gamma)$",
            r"$\nabla\Psi_\gamma = \frac{1}{2}\operatorname{asinh}(D/\gamma)$",
            "numeric",
            evidence.mirror_gradient_without_half,
        ),
        Erratum(
            "Theorem C.11, proof",
            r"the left singular vectors of $Z_1$ are the right ones of $Z_2$",
            r"the right singular vectors of $Z_1$ are the left ones of $Z_2$",
            "convention",
        ),
    ],
    title="a mirror flow of the singular values",
    dynamics=(Flow,),
    **ABOUT,
)


def _mirror(setup: Setup, runs: Any) -> dict[str, Any]:
    run, gamma = runs["run"], gamma_of(setup)
    beta = betas(run)
    potential = spectral_scalar_potential(gamma)
    speed = np.sqrt(gamma + np.hypot(np.linalg.norm(beta, axis=1, keepdims=True), gamma))
    norms = np.array([np.linalg.norm(potential.gradient(b)) for b in beta])
    return sized({"dual velocity": speed * forces(run, beta), "norm of W2": norms})


def _measured_mirror(runs: Any) -> dict[str, Any]:
    """The derivative of β/√w along the motion of the layers, with w' by the chain rule."""
    run = runs["run"]
    layers, velocity = path(run), motion(run).beta
    beta = layers.beta
    s = np.hypot(np.linalg.norm(beta, axis=1, keepdims=True), gamma_of(run.setup))
    w = s + gamma_of(run.setup)
    turn = np.sum(beta * velocity, axis=1, keepdims=True) / (2 * w * s)
    return {
        "dual velocity": (velocity - turn * beta) / np.sqrt(w),
        "norm of W2": np.linalg.norm(layers.W2, axis=(1, 2)),
    }


THM_3_2_B = Theorem(
    "spectral.thm3.2b",
    r"With one output, under $I_\gamma$ and with $w = \gamma+\sqrt{|\beta|^2+\gamma^2}$, the "
    r"predictor follows a mirror flow, $d\,\nabla\psi_\gamma(\beta) = -\sqrt{w}\,\nabla L\,dt$ "
    r"with $\psi_\gamma = \frac{2}{3}w\sqrt{w} - 2\gamma\sqrt{w}$, and "
    r"$|\nabla\psi_\gamma(\beta)|$ is the norm of $W_2$.",
    [ONE_OUTPUT, PLAIN, I_GAMMA],
    _mirror,
    _measured_mirror,
    1e-8,
    lambda key: cases.flow(key, k=1),
    [Control("the init is I_γ", lambda key: cases.anisotropic(key, k=1))],
    given=("theta",),
    errata=[
        Erratum(
            "Lemma C.7, proof",
            r"$\dot Z_1 = Z_1\alpha r^T$",
            r"$\dot Z_1 = r\alpha^TZ_1$",
            "numeric",
            evidence.velocity_of_z,
        ),
        Erratum(
            "Lemma C.7, proof",
            r"$\dot\beta = (Z_1^TZ_1 + \alpha^TZ_1^TZ_1\alpha)r$",
            r"$\dot\beta = (Z_1Z_1^T + \alpha^TZ_1Z_1^T\alpha)r$",
            "numeric",
            evidence.velocity_of_beta,
        ),
    ],
    title="a mirror flow of one output",
    dynamics=(Flow,),
    **ABOUT,
)


def _asymptotic(setup: Setup) -> float:
    """½Σσ(ln(2σ/γ) − 1) over the non-zero singular values of β*."""
    sigma = star(setup)
    sigma = sigma[sigma > 0]
    return float(np.sum(sigma * (np.log(2 * sigma) - np.log(gamma_of(setup)) - 1)) / 2)


def _away(setup: Setup) -> float:
    """How far Ψ_γ(σ*) still is from its asymptotic form."""
    told = _asymptotic(setup)
    value = singular_value_potential(gamma_of(setup)).value(star(setup))
    return abs(value - told) / told if told > 0 else float("inf")


def _potential(runs: Any) -> dict[str, Any]:
    run = runs["run"]
    gamma, sigma = gamma_of(run.setup), svdvals(betas(run)[-1])
    potential = singular_value_potential(gamma)
    slope = float(np.linalg.norm(potential.gradient(sigma)))
    return {"potential": ended(run, potential.value(sigma), slope)}


PSI = Theorem(
    "spectral.psi",
    r"As $\gamma \to 0$ the potential $\Psi_\gamma$ of the limit becomes "
    r"$\frac{1}{2}\ln(1/\gamma)\|\beta^\star\|_* + "
    r"\frac{1}{2}\sum\sigma_i(\ln 2\sigma_i - 1)$: it grows like half of $\ln(1/\gamma)$ times the "
    r"nuclear norm.",
    [
        PLAIN,
        OF_DATA,
        DIES_OUT,
        I_GAMMA,
        Hypothesis("the init is small", _away, 0.2, True, "O(γ)"),
    ],
    lambda setup: {"potential": _asymptotic(setup)},
    _potential,
    1e-8,
    lambda key: cases.flow(key, gamma=1e-6),
    [Control("the init is small", cases.flow)],
    errata=[
        Erratum(
            "after Theorem 3.2",
            r"$\Psi_\gamma \sim \ln(1/\gamma)\|\beta\|_*$",
            r"$\Psi_\gamma \sim \frac{1}{2}\ln(1/\gamma)\|\beta\|_*$",
            "numeric",
            evidence.growth_of_psi,
        )
    ],
    title="the potential becomes the nuclear norm",
    dynamics=STEPS,
    **ABOUT,
)
