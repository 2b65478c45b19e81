"""Theorems C.11 and C.12: on whitened data every singular value is learned on its own."""

import numpy as np

from ...dynamics import Descent
from ...theory.spectral import (
    WhitenedDescent,
    activation_time,
    whitened_descent,
    whitened_trajectory,
)
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    equals,
    fact,
    setup_of,
)
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    I_GAMMA,
    ON_WHITENED,
    PLAIN,
    QUIET,
    STEPS,
    WHITENED,
    gamma_of,
    problem_of,
    rate_of,
    scale_of,
    sized,
    star,
    times_of,
)
from ._measurements import betas, duals, forces, path, svdvals, transposed
from ._paper import PAPER


def whitened(key: int) -> Setup:
    """A flow on whitened data."""
    return cases.flow(key, whitened=True)


def vectors(setup: Setup) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    problem = problem_of(setup)
    beta = problem.as_predictor(problem.min_norm)
    return np.linalg.svd(beta, full_matrices=False)


def predict_still(setup: Setup) -> Claims:
    names = ("off-diagonal", "outputs (C.17)", "inputs (C.18)", "hidden (C.22)")
    return {name: equals(0.0, scale=1.0) for name in names}


def measure_still(run: Run) -> Measurements:
    layers = path(run)
    alpha = duals(path(run))
    R = forces(run, layers.beta)
    U, s, Vt = vectors(setup_of(run))
    core = U.T @ layers.beta @ Vt.T
    off = core * (1 - np.eye(len(s)))
    return {
        "off-diagonal": np.abs(off).max() / (s[0] or 1.0),
        "outputs (C.17)": _asymmetry(transposed(alpha) @ R),
        "inputs (C.18)": _asymmetry(alpha @ transposed(R)),
        "hidden (C.22)": _asymmetry(transposed(layers.W1) @ R @ transposed(layers.W2)),
    }


def _asymmetry(products: np.ndarray) -> float:
    size = np.abs(products).max()
    return float(np.abs(products - transposed(products)).max() / size) if size else 0.0


THM_C_11 = Theorem(
    "spectral.thmC.11",
    r"On whitened data and from $I_\gamma$ the singular vectors of the predictor are those of "
    r"$\beta^\star$ at every time, and $\alpha^TR$, $\alpha R^T$ and $W_1^TRW_2^T$ are symmetric; "
    r"this also holds for $XX^T = cI$ and for descent with any step.",
    hypotheses=[PLAIN, QUIET, WHITENED, I_GAMMA],
    predict=predict_still,
    measure=measure_still,
    tolerance=1e-8,
    instances=whitened,
    paper_size=cases.paper_whitened,
    controls=[
        Control("the data are whitened", cases.flow),
        Control("the init is I_γ", lambda key: cases.anisotropic(key, whitened=True)),
    ],
    errata=[
        Erratum(
            "Theorem C.11, proof of (C.17)",
            r"$(R^T\alpha)' = … + R^T\alpha$",
            r"$(R^T\alpha)' = … + 2\gamma R^T\alpha$",
            "misprint",
            evidence=evidence.product_rate,
            quote=r"- 2\gamma (I_k - \alpha^\top \alpha)^{-1} \mathbf{R}^\top \alpha + "
            r"\mathbf{R}^\top \alpha,",
            note="The line before it gives the 2γ; the lines after it repeat the slip.",
        ),
        Erratum(
            "Theorem C.11, proof of (C.17)",
            r"$(C-C^T)' = HS - SH$ with $S = C-C^T$ and $H = \frac{1}{2}(I-C-C^T) - "
            r"2\gamma(I-\alpha^T\alpha)^{-1}$",
            r"$(C-C^T)' = HS + SH$ with $H = \frac{1}{2}(2\gamma I-C-C^T) - "
            r"2\gamma(I-\alpha^T\alpha)^{-1}$",
            "misprint",
            evidence=evidence.antisymmetric_rate,
            quote=r"&\quad - (\mathbf{C} - \mathbf{C}^\top) \left[ \frac{1}{2} (\mathbf{I} - "
            r"\mathbf{C} - \mathbf{C}^\top) - 2\gamma (I_k - \alpha^\top \alpha)^{-1} "
            r"\right].",
            note="the line before it, and that for (C.18), have the plus; the conclusion is "
            "the same: S = 0 stays 0",
        ),
    ],
    title="whitened data: singular vectors stand still",
    dynamics=STEPS,
    paper=PAPER,
)


def steps_of(setup: Setup) -> int:
    """After how many steps nothing moves any more in double precision, or the last save."""
    c = scale_of(setup)
    gamma = gamma_of(setup)
    sigma = star(setup)
    learned = sigma[sigma > 0]
    if not len(learned):
        return 0
    half = activation_time(learned, gamma, scale=c)
    settled = float(np.max(half + 20 / (c * np.hypot(learned, gamma))))
    return int(min(np.max(setup.save_at), np.ceil(1.5 * settled / rate_of(setup))))


@fact
def descended(setup: Setup) -> WhitenedDescent:
    """The exact recursion at the saved steps."""
    last = steps_of(setup)
    whole = whitened_descent(
        star(setup), gamma_of(setup), rate_of(setup), last, scale=scale_of(setup)
    )
    steps = np.minimum(np.asarray(setup.save_at, dtype=int), last)
    return WhitenedDescent(whole.z1[steps], whole.z2[steps])


SHORT = Hypothesis(
    "descent settles within 1e5 steps",
    lambda setup: float(steps_of(setup)) if isinstance(setup.dynamics, Descent) else 0.0,
    1e5,
)


def _lag(setup: Setup) -> float:
    """How far descent is from the flow at the saves, by the exact recursion of both."""
    if not isinstance(setup.dynamics, Descent):
        return 0.0
    layers = descended(setup)
    sigma = _trajectory(setup)
    away = np.linalg.norm(layers.z1 * layers.z2 - sigma)
    return float(away / (np.linalg.norm(sigma) or 1.0))


def _trajectory(setup: Setup) -> np.ndarray:
    return whitened_trajectory(star(setup), gamma_of(setup), times_of(setup), scale_of(setup))


def predict_learned(setup: Setup) -> Claims:
    U, _, Vt = vectors(setup)
    sigma = _trajectory(setup)
    return sized({"sigma": np.sort(sigma)[:, ::-1], "theta": (U * sigma[:, None, :]) @ Vt})


def measure_learned(run: Run) -> Measurements:
    beta = betas(run)
    return {"sigma": svdvals(beta), "theta": beta}


THM_C_12 = Theorem(
    "spectral.thmC.12",
    r"On whitened data, $A = cI$ on the span of $X^T$, and from $I_\gamma$, "
    r"$\dot\sigma_i = 2c\sqrt{\sigma_i^2+\gamma^2}(\sigma_i^\star-\sigma_i)$ has a closed "
    r"solution, and $\beta(t) = U\operatorname{diag}(\sigma(t))V^T$.",
    hypotheses=[
        *ON_WHITENED,
        SHORT,
        Hypothesis("the step is small", _lag, 0.2, True, "O(lr)"),
    ],
    predict=predict_learned,
    measure=measure_learned,
    tolerance=1e-8,
    instances=whitened,
    paper_size=cases.paper_whitened,
    controls=[Control("the data are whitened", cases.flow)],
    errata=[
        Erratum(
            "Theorem C.12",
            r"$\sigma^\star$ for $t \ge 1/(2\sigma^\star)$",
            r"$\sigma^\star/(1+2\sigma^\star)$ at $t = 1/(2\sigma^\star)$",
            "misprint",
            quote=r"\sigma_{*,i}, & \text{otherwise.} \end{cases}",
            note="its own proof has it; that value depends on units, and half is learned at "
            "ln(2σ*/γ)/(2σ*)",
        ),
    ],
    title="whitened data: the singular values",
    dynamics=STEPS,
    paper=PAPER,
)
