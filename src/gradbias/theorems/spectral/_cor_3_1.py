"""Corollary 3.1 and Lemma C.10: the singular values of the layers, in the limit and on the way."""

import numpy as np

from ...nets import TwoLayer
from ...theory.spectral import limit_singular_values
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    measured,
    setup_of,
)
from . import _instances as cases
from ._facts import (
    I_GAMMA,
    PLAIN,
    QUIET,
    STABLE,
    STEADY,
    STEPS,
    gamma_of,
    limit_of,
    sized,
    star,
    start,
)
from ._finite_step import small_step
from ._measurements import betas, misfit, path, svdvals
from ._paper import PAPER

STEP = (PLAIN, QUIET, STEADY)


def predict_limits(setup: Setup) -> Told:
    return Told(sized(limit_of(setup).singular_values._asdict()), residual=limit_of(setup).residual)


def measure_limits(run: Run) -> Measurements:
    setup = setup_of(run)
    d = setup.problem.d
    sigma = star(setup)
    # A predictor that is still off by ε has singular values within ε of the limit's, and those of
    # the layers move by d√(s ± γ) = σ dσ/(2s√(s ± γ)), s² = σ² + γ².
    s = np.hypot(sigma, gamma_of(setup))
    root = np.sqrt(s + gamma_of(setup))
    errors = [
        misfit(run) * float(np.linalg.norm(x)) for x in (sigma / (2 * s * root), root / (2 * s))
    ]
    values = svdvals(np.asarray(run.final["W1"])), svdvals(np.asarray(run.final["W2"]))
    return {
        "W1": measured(_padded(values[0], d), error=errors[0]),
        "W2": measured(_padded(values[1], len(sigma)), error=errors[1]),
    }


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    padded = np.zeros((*values.shape[:-1], size))
    padded[..., : values.shape[-1]] = values[..., :size]
    return padded


COR_3_1 = Theorem(
    "spectral.cor3.1",
    r"At the end of the flow from $I_\gamma$ the layers have the singular values "
    r"$\sqrt{\sqrt{\sigma_i^2+\gamma^2} \pm \gamma}$ with $\sigma_i$ those of $\beta^\star$, and "
    r"$\sqrt{2\gamma}$ for the other $d - k$ of $W_1$.",
    hypotheses=[*STEP, I_GAMMA, STABLE, small_step("end")],
    predict=predict_limits,
    measure=measure_limits,
    tolerance=1e-8,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    title="singular values of the layers at the end",
    dynamics=STEPS,
    paper=PAPER,
)


def predict_of_predictor(setup: Setup, run: Run) -> Claims:
    limits = [limit_singular_values(beta, gamma_of(setup), setup.problem.d) for beta in betas(run)]
    return sized({name: np.stack([getattr(f, name) for f in limits]) for name in ("W1", "W2")})


def measure_of_predictor(run: Run) -> Measurements:
    layers = path(run)
    problem = setup_of(run).problem
    sizes = {"W1": problem.d, "W2": min(problem.d, problem.k)}
    return {n: _padded(svdvals(getattr(layers, n)), size) for n, size in sizes.items()}


LEMMA_C_10 = Theorem(
    "spectral.lemmaC.10",
    r"At every time of the flow from $I_\gamma$ the singular values of the layers are "
    r"$\sqrt{\sqrt{\sigma_i^2+\gamma^2} \pm \gamma}$ with $\sigma_i$ those of the predictor at "
    r"that time, for any data.",
    hypotheses=[*STEP, I_GAMMA, STABLE, small_step("path")],
    predict=predict_of_predictor,
    measure=measure_of_predictor,
    tolerance=1e-10,
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    given=("theta",),
    title="singular values of the layers at every time",
    dynamics=STEPS,
    paper=PAPER,
)


def _unlike(setup: Setup) -> float:
    """The change of σ(W1) by a start that is not quite I_γ, relative, to first order.

    An uneven W1W1ᵀ moves its small singular values and the part of β outside of span Xᵀ by about
    √(2γ) times the unevenness; an imbalance Δ moves a large one by Δ√m/(4s).
    """
    W1, W2, gamma = start(setup)
    sigma = star(setup)
    if not gamma > 0 or not sigma.max() > 0:
        return float("inf")
    uneven = float(np.linalg.norm(W1 @ W1.T / (2 * gamma) - np.eye(len(W1))))
    s = np.hypot(sigma[sigma > 1e-12 * sigma.max()], gamma)
    steepest = float(np.max(np.sqrt(s + gamma) / (4 * s)))
    added = 2 * gamma * uneven + float(np.linalg.norm(W2) ** 2)
    size = float(np.linalg.norm(limit_of(setup).singular_values.W1))
    frozen = float(np.linalg.norm(W1, 2) * np.linalg.norm(W2))
    return (np.sqrt(2 * gamma) * uneven + 2 * steepest * added + frozen) / size


def gaussian(key: int, std: float = 1e-3) -> Setup:
    """Both layers Gaussian."""
    rng = cases.draws(key + 6)
    d, _, k, width = cases.sizes(key)
    shapes = TwoLayer(d, k, width).shapes()
    params = {name: std * rng.standard_normal(shape) for name, shape in shapes.items()}
    return cases.flow(key, params=params)


PERTURBED = Theorem(
    "spectral.perturbed",
    r"A small start near $I_\gamma$, such as Gaussian layers of standard deviation $s$ and width "
    r"$h$ with $\gamma = hs^2/2$, ends with the singular values of $W_1$ that $I_\gamma$ gives.",
    hypotheses=[
        *STEP,
        Hypothesis("the init is near a small I_γ", _unlike, 0.3, True, "O(√γ)"),
        STABLE,
        small_step("end"),
    ],
    predict=lambda setup: {"W1": limit_of(setup).singular_values.W1},
    measure=lambda run: {"W1": measure_limits(run)["W1"]},
    tolerance=1e-8,
    instances=gaussian,
    controls=[Control("the init is near a small I_γ", lambda key: gaussian(key, std=0.7))],
    title="a small Gaussian init ends nearly alike",
    dynamics=STEPS,
    paper=PAPER,
)
