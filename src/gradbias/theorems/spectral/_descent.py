"""Section C.1: what a finite step does, exactly and as a shift of γ."""

import numpy as np

from ...dynamics import Descent
from ...theory.spectral import (
    effective_gamma,
    gd_force_step,
    gd_imbalance_drift,
    gd_step,
    limit_singular_values,
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
    Until,
    measured,
    setup_of,
)
from . import _errata_steps as evidence
from . import _instances as cases
from ._cor_3_1 import _padded, measure_limits
from ._facts import (
    ON_WHITENED,
    PLAIN,
    QUIET,
    STABLE,
    STEADY,
    gamma_of,
    problem_of,
    rate_of,
    scale_of,
    sized,
    star,
)
from ._measurements import Path, forces, imbalance, motion, path, svdvals
from ._paper import PAPER
from ._thms_c11_c12 import SHORT, descended

CONSECUTIVE = np.arange(cases.SAVES)


def _first_steps(setup: Setup) -> dict[str, Setup]:
    return {"run": setup.replace(save_at=CONSECUTIVE, until=Until(steps=int(CONSECUTIVE[-1])))}


def predict_next(setup: Setup, run: Run) -> Claims:
    problem = problem_of(setup)
    lr = rate_of(setup)
    W1, W2 = path(run)
    nets = [{"W1": a, "W2": b} for a, b in zip(W1[:-1], W2[:-1], strict=True)]
    steps = [gd_step(problem, net, lr) for net in nets]
    series = {
        "W1": [step.W1 for step in steps],
        "W2": [step.W2 for step in steps],
        "R": [gd_force_step(problem, net, lr) for net in nets],
        "drift": [gd_imbalance_drift(problem, net, lr) for net in nets],
    }
    return sized({name: np.stack(values) for name, values in series.items()})


def predict_first_order(setup: Setup, run: Run) -> Claims:
    """R⁺ by the velocity of the predictor."""
    moved = path(run).beta + rate_of(setup) * motion(run).beta
    return {"R": forces(run, moved)[:-1]}


def measure_next(run: Run) -> Measurements:
    layers = path(run)
    return {
        "W1": layers.W1[1:],
        "W2": layers.W2[1:],
        "R": forces(run, layers.beta)[1:],
        # A difference of large numbers: small steps move them by little more than rounding.
        "drift": measured(np.diff(imbalance(*layers), axis=0), error=_rounded(layers)),
    }


def _rounded(layers: Path) -> float:
    """What rounding does to differences of W1ᵀW1 − W2W2ᵀ, over all steps."""
    squares = np.sum(layers.W1**2, axis=(1, 2)) + np.sum(layers.W2**2, axis=(1, 2))
    return 8 * float(np.finfo(np.float64).eps * np.linalg.norm(squares))


GD = Theorem(
    "spectral.gd",
    r"A step of descent makes $W_1^+ = W_1+\eta RW_2^T$, $W_2^+ = W_2+\eta W_1^TR$, "
    r"$R^+ = R - \eta A(MR+RN) - \eta^2AR\beta^TR$, and adds "
    r"$\eta^2(W_2R^TRW_2^T - W_1^TRR^TW_1)$ to the imbalance, exactly and from any start.",
    hypotheses=[PLAIN, QUIET, STEADY],
    predict=predict_next,
    measure=measure_next,
    tolerance=1e-10,
    instances=cases.descent,
    controls=[Control("no momentum", lambda key: cases.descent(key, momentum=0.5))],
    terms={"the second order of R⁺": predict_first_order},
    runs=_first_steps,
    given=("params",),
    errata=[
        Erratum(
            "Section C.1",
            r"$a^+ = a + \eta W^Ta$",
            r"$a^+ = a + \eta W^TR$",
            "misprint",
            evidence=evidence.second_layer_step,
            quote=r"a_{t+1} &= a_t + \eta W_t^\top a_t",
            note="(2.4b) has it right.",
        ),
        Erratum(
            "Section C.1",
            r"$R^+ = R - \eta A(WW^T+|a|^2)R - \eta^2(a^TWR)AR$",
            "$a^TW^TR$ there; one transpose may have been lost on the way to the text",
            "reading",
            quote=r"\eta^2 (a_t^\top W_t R_t) (X^\top X) R_t",
            note="Check against the PDF.",
        ),
        Erratum(
            "Section C.1, whitened data",
            r"$R_t$ only grows in norm",
            r"$R_t$ keeps its direction and shrinks by $1-\eta(z_1^2+z_2^2)-\eta^2\rho z_1z_2$",
            "false",
            evidence=evidence.force_shrinks,
            quote="$R_t, a_t$ only grow in norm and do not change in direction",
            note="and the update of W is aligned with R₀R₀ᵀ, for a₀ = 0 makes R₀a₀ᵀ zero",
        ),
    ],
    title="one step of descent, exactly",
    dynamics=(Descent,),
    paper=PAPER,
)


def predict_recursion(setup: Setup) -> Claims:
    layers = descended(setup)
    idle = np.full((len(layers.z1), setup.problem.d), np.sqrt(2 * gamma_of(setup)))
    idle[:, : layers.z1.shape[1]] = np.abs(layers.z1)
    return sized({"W1": _sorted(idle), "W2": _sorted(np.abs(layers.z2))})


def _sorted(values: np.ndarray) -> np.ndarray:
    return np.sort(values, axis=-1)[..., ::-1]


def measure_recursion(run: Run) -> Measurements:
    layers = path(run)
    problem = setup_of(run).problem
    sizes = {"W1": problem.d, "W2": min(problem.d, problem.k)}
    return {name: _padded(svdvals(getattr(layers, name)), n) for name, n in sizes.items()}


def whitened(key: int) -> Setup:
    """Descent on whitened data."""
    return cases.descent(key, whitened=True)


GD_WHITENED = Theorem(
    "spectral.gd_whitened",
    r"On whitened data descent from $I_\gamma$ decouples: $z_1^+ = z_1+\eta\rho z_2$, "
    r"$z_2^+ = z_2+\eta\rho z_1$ with $\rho = c(\sigma^\star - z_1z_2)$ for every singular value, "
    r"and a step multiplies $z_1^2-z_2^2$ by $1-\eta^2\rho^2$.",
    hypotheses=[*ON_WHITENED, STABLE, SHORT],
    predict=predict_recursion,
    measure=measure_recursion,
    tolerance=1e-9,
    instances=whitened,
    controls=[Control("the data are whitened", cases.descent)],
    title="whitened data: descent decouples",
    dynamics=(Descent,),
    paper=PAPER,
)


def _gammas(setup: Setup) -> np.ndarray:
    return effective_gamma(star(setup), gamma_of(setup), rate_of(setup), scale_of(setup))


def _second_order(setup: Setup) -> float:
    """What the next order may bring: δγ/γ, which moves σ(W1) by δγ/(2s), relatively.

    Descent lags the flow by ηcσ*/2, so that δγ/γ is as much of the first order; and its first
    step is too long, which brings ½(ηcσ*)² more.
    """
    sigma = star(setup)
    gammas = _gammas(setup)
    step = rate_of(setup) * scale_of(setup) * sigma
    more = step * (step + np.log(gamma_of(setup) / gammas))
    return float(np.max(gammas * more / (2 * np.hypot(sigma, gammas))))


def predict_shifted(setup: Setup, shift: float = 1.0) -> Claims:
    """By Corollary 3.1, with the given part of the shift of ln γ."""
    sigma = star(setup)
    gammas = gamma_of(setup) * (_gammas(setup) / gamma_of(setup)) ** shift
    d = setup.problem.d
    limits = [limit_singular_values([[s]], g, 1) for s, g in zip(sigma, gammas, strict=True)]
    first = np.full(d, np.sqrt(2 * gamma_of(setup)))
    first[: len(sigma)] = [f.W1[0] for f in limits]
    return sized({"W1": _sorted(first), "W2": _sorted(np.array([f.W2[0] for f in limits]))})


def uneven(key: int) -> Setup:
    """Descent on whitened data from the start of the control `anisotropic`."""
    return cases.descent(key, whitened=True, params=dict(cases.anisotropic(key).params))


GAMMA_EFF = Theorem(
    "spectral.gamma_eff",
    r"On whitened data descent ends with the singular values of Corollary 3.1 for "
    r"$\gamma_i = \gamma e^{-\eta c(\Psi_\gamma(\sigma_i^\star)-\Psi_\gamma(0))}$ in place of "
    r"$\gamma$, up to $O(\eta^2)$.",
    hypotheses=[
        *ON_WHITENED,
        STABLE,
        Hypothesis("the step is small", _second_order, 0.1, True, "O(lr²)"),
    ],
    predict=predict_shifted,
    measure=measure_limits,
    tolerance=1e-8,
    instances=whitened,
    controls=[Control("the init is I_γ", uneven)],
    terms={"the shift of γ": lambda setup: predict_shifted(setup, 0.0)},
    title="a finite step is a smaller γ",
    dynamics=(Descent,),
    paper=PAPER,
    own=True,
)
