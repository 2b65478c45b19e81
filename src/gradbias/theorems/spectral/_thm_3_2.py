"""Theorem 3.2, Lemmas C.7 and C.13: mirror flows of the singular values and of one output."""

import numpy as np

from ...dynamics import Flow
from ...theory.potentials import spectral_scalar_potential
from ...theory.spectral import singular_value_velocity
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    setup_of,
)
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
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
from ._paper import PAPER

NODES = 24  # of Gauss and Legendre in every octave
APART = 1e-4  # closer singular values have no vectors of their own


def _with_vectors(beta: np.ndarray) -> np.ndarray:
    """The saves at which the singular values are apart from each other and from zero."""
    s = svdvals(beta)
    gaps = np.abs(np.diff(s, axis=1, append=0.0)).min(axis=1)
    return gaps > APART * np.maximum(s[:, 0], 1e-300)


def _velocities(setup: Setup, run: Run) -> np.ndarray:
    beta = betas(run)
    velocities = [
        singular_value_velocity(problem_of(setup), b, gamma_of(setup)).velocity
        for b in beta[_with_vectors(beta)]
    ]
    return np.reshape(velocities, (-1, min(beta.shape[1:])))


def predict_velocities(setup: Setup, run: Run) -> Claims:
    return sized({"velocity": _velocities(setup, run)})


def predict_printed_velocities(setup: Setup, run: Run) -> Claims:
    """Of the printed potential, whose second derivative is σ²/(2s³) and not 1/(2s)."""
    sigma = svdvals(betas(run)[_with_vectors(betas(run))])
    return {"velocity": _velocities(setup, run) * (1 + (gamma_of(setup) / sigma) ** 2)}


def measure_velocities(run: Run) -> Measurements:
    keep = _with_vectors(betas(run))
    U, _, Vt = np.linalg.svd(path(run).beta[keep], full_matrices=False)
    return {"velocity": np.einsum("tji,tjk,tik->ti", U, motion(run).beta[keep], Vt)}


THM_3_2_A = Theorem(
    "spectral.thm3.2a",
    r"Under $I_\gamma$ the singular values of the predictor follow a mirror flow, "
    r"$d\,\nabla\Psi_\gamma(\sigma)_i = u_i^TRv_i\,dt$ with "
    r"$\Psi_\gamma(D) = \frac{1}{2}\operatorname{tr}[D\,\operatorname{asinh}(D/\gamma) - "
    r"\sqrt{D^2+\gamma^2}]$: $\dot\sigma_i = 2\sqrt{\sigma_i^2+\gamma^2}\,u_i^TRv_i$.",
    hypotheses=[PLAIN, I_GAMMA],
    predict=predict_velocities,
    measure=measure_velocities,
    tolerance=1e-8,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    given=("theta",),
    errata=[
        Erratum(
            "Theorem 3.2 (a)",
            r"$\Psi_\gamma(D) = \operatorname{tr}(\frac{1}{2}D\,\operatorname{asinh}(D/\gamma) - "
            r"\sqrt{D^2+\gamma^2})$",
            r"$\Psi_\gamma(D) = \frac{1}{2}\operatorname{tr}(D\,\operatorname{asinh}(D/\gamma) - "
            r"\sqrt{D^2+\gamma^2})$",
            "misprint",
            evidence=evidence.mirror_gradient,
            quote=r"\Psi_\gamma(\mathbf{D}_\beta) := \text{tr}\left(\frac{1}{2}\mathbf{D}_\beta "
            r"\sinh^{-1}(\mathbf{D}_\beta/\gamma) - \sqrt{\mathbf{D}_\beta^2 + "
            r"\gamma^2}\right)",
            note="So in the main text, in Appendix B and in Lemma C.13, whose proof needs the "
            "other.",
            predict=predict_printed_velocities,
        ),
        Erratum(
            "Lemma C.13, last line, after (C.40)",
            r"$\nabla\Psi_\gamma = \operatorname{asinh}(D/\gamma)$",
            r"$\nabla\Psi_\gamma = \frac{1}{2}\operatorname{asinh}(D/\gamma)$",
            "misprint",
            evidence=evidence.mirror_gradient_without_half,
            quote=r"- \sqrt{\mathbf{D}_{\beta}^2 + \gamma^2}) = \sinh^{-1}(\frac{1}{\gamma} "
            r"\mathbf{D}_{\beta})",
            note="The line before it has the ½.",
            predict=lambda setup, run: {"velocity": _velocities(setup, run) / 2},
        ),
        Erratum(
            "Theorem C.11, proof",
            r"the left singular vectors of $Z_1$ are the right ones of $Z_2$",
            r"the right singular vectors of $Z_1$ are the left ones of $Z_2$",
            "misprint",
            quote=r"the left singular vectors of $\mathbf{Z}_1$ are the same as the right "
            r"singular vectors of $\mathbf{Z}_2$",
            note="The formula in the same sentence has it right.",
        ),
    ],
    title="a mirror flow of the singular values",
    dynamics=(Flow,),
    paper=PAPER,
)


def predict_mirror(setup: Setup, run: Run) -> Claims:
    gamma = gamma_of(setup)
    beta = betas(run)
    potential = spectral_scalar_potential(gamma)
    speed = np.sqrt(gamma + np.hypot(np.linalg.norm(beta, axis=1, keepdims=True), gamma))
    norms = np.array([np.linalg.norm(potential.gradient(b)) for b in beta])
    return sized({"dual velocity": speed * forces(run, beta), "norm of W2": norms})


def measure_mirror(run: Run) -> Measurements:
    """The derivative of β/√w along the motion of the layers, with w' by the chain rule."""
    layers = path(run)
    velocity = motion(run).beta
    beta = layers.beta
    s = np.hypot(np.linalg.norm(beta, axis=1, keepdims=True), gamma_of(setup_of(run)))
    w = s + gamma_of(setup_of(run))
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
    hypotheses=[ONE_OUTPUT, PLAIN, I_GAMMA],
    predict=predict_mirror,
    measure=measure_mirror,
    tolerance=1e-8,
    instances=lambda key: cases.flow(key, k=1),
    paper_size=cases.paper_one_output,
    controls=[Control("the init is I_γ", lambda key: cases.anisotropic(key, k=1))],
    given=("theta",),
    errata=[
        Erratum(
            "Lemma C.7, proof",
            r"$\dot Z_1 = Z_1\alpha r^T$",
            r"$\dot Z_1 = r\alpha^TZ_1$",
            "misprint",
            evidence=evidence.velocity_of_z,
            quote=r"\dot{\mathbf{Z}}_1 = \mathbf{Z}_1 \alpha \mathbf{r}^\top",
            note="(C.1) has it right.",
        ),
        Erratum(
            "Lemma C.7, proof",
            r"$\dot\beta = (Z_1^TZ_1 + \alpha^TZ_1^TZ_1\alpha)r$",
            r"$\dot\beta = (Z_1Z_1^T + \alpha^TZ_1Z_1^T\alpha)r$",
            "misprint",
            evidence=evidence.velocity_of_beta,
            quote=r"(\mathbf{Z}_1^\top \mathbf{Z}_1 + \alpha^\top \mathbf{Z}_1^\top "
            r"\mathbf{Z}_1 \alpha) \mathbf{r}",
            note=r"Lemma C.2 has $\beta = Z_1Z_1^\top\alpha$.",
        ),
    ],
    title="a mirror flow of one output",
    dynamics=(Flow,),
    paper=PAPER,
)


def _leading(setup: Setup) -> float:
    """ln(1/γ) times the nuclear norm."""
    return -float(np.log(gamma_of(setup)) * star(setup).sum())


def _asymptotic(setup: Setup) -> float:
    """½Σσ(ln(2σ/γ) − 1) over the non-zero singular values of β*."""
    sigma = star(setup)
    sigma = sigma[sigma > 0]
    return float(np.sum(sigma * (np.log(2 * sigma) - np.log(gamma_of(setup)) - 1)) / 2)


def _next_order(setup: Setup) -> float:
    """The next terms of the series: −γ²/8σ of a singular value, −γ/2 of one that is zero."""
    asymptotic = _asymptotic(setup)
    sigma = star(setup)
    gamma = gamma_of(setup)
    learned = sigma[sigma > 0]
    left = float(np.sum(gamma**2 / (8 * learned))) + gamma / 2 * (len(sigma) - len(learned))
    return left / asymptotic if asymptotic > 0 else float("inf")


def measure_potential(run: Run) -> Measurements:
    """By quadrature of what the speed 2√(σ² + γ²) of a mirror flow needs."""
    gamma = gamma_of(setup_of(run))
    sigma = svdvals(betas(run)[-1])
    values, slopes = np.transpose([_mirror_integrals(s, gamma) for s in sigma])
    return {"potential": ended(run, values.sum(), float(np.linalg.norm(slopes)))}


def _mirror_integrals(sigma: float, gamma: float) -> tuple[float, float]:
    """Ψ and Ψ' at σ from Ψ'' = 1/(2√(x² + γ²)), Ψ'(0) = 0 and Ψ(0) = −γ/2."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    octaves = int(np.ceil(np.log2(max(sigma / gamma, 1.0))))
    edges = np.concatenate([[0.0], sigma * 0.5 ** np.arange(octaves, -1, -1.0)])
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + nodes)
    parts = half * weights / (2 * np.sqrt(x**2 + gamma**2))
    return float(np.sum(parts * (sigma - x))) - gamma / 2, float(np.sum(parts))


PSI = Theorem(
    "spectral.psi",
    r"As $\gamma \to 0$ the potential $\Psi_\gamma$ of the limit becomes "
    r"$\frac{1}{2}\ln(1/\gamma)\|\beta^\star\|_* + "
    r"\frac{1}{2}\sum\sigma_i(\ln 2\sigma_i - 1)$: it grows like half of $\ln(1/\gamma)$ times the "
    r"nuclear norm.",
    hypotheses=[
        PLAIN,
        OF_DATA,
        DIES_OUT,
        I_GAMMA,
        Hypothesis("the init is small", _next_order, 0.05, True, "O(γ)"),
    ],
    predict=lambda setup: {"potential": _asymptotic(setup)},
    measure=measure_potential,
    tolerance=1e-8,
    instances=lambda key: cases.flow(key, gamma=1e-6),
    controls=[Control("the init is small", lambda key: cases.flow(key, gamma=5.0))],
    terms={"the constant": lambda setup: {"potential": _leading(setup) / 2}},
    errata=[
        Erratum(
            "after Theorem 3.2 (a)",
            r"$\Psi_\gamma \sim \ln(1/\gamma)\|\beta\|_*$",
            r"$\Psi_\gamma \sim \frac{1}{2}\ln(1/\gamma)\|\beta\|_*$",
            "misprint",
            evidence=evidence.growth_of_psi,
            quote=r"\Psi_\gamma \sim (-\ln \gamma)\|\beta\|_*",
            note="The theorem's own potential has the ½.",
            predict=lambda setup: {"potential": _leading(setup)},
        )
    ],
    title="the potential becomes the nuclear norm",
    dynamics=STEPS,
    paper=PAPER,
)
