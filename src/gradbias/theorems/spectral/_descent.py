"""Section C.1: what a finite step does, exactly and as a shift of γ."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...theory.spectral import (
    effective_gamma,
    gd_force_step,
    gd_imbalance_drift,
    gd_step,
    limit_singular_values,
)
from .._claims import measured
from .._erratum import Erratum
from .._hypothesis import Hypothesis
from .._theorem import Control, Theorem
from . import _errata_steps as evidence
from . import _instances as cases
from ._cor_3_1 import _at_the_end, _padded
from ._facts import (
    ABOUT,
    I_GAMMA,
    PLAIN,
    QUIET,
    STABLE,
    STEADY,
    WHITENED,
    gamma_of,
    problem_of,
    rate_of,
    scale_of,
    sized,
    star,
)
from ._measurements import forces, imbalance, path, svdvals
from ._thms_c11_c12 import SHORT, descended

CONSECUTIVE = np.arange(cases.SAVES)


def _first_steps(setup: Setup) -> dict[str, Setup]:
    return {"run": setup.replace(save_at=CONSECUTIVE, until=Until(steps=int(CONSECUTIVE[-1])))}


def _next(setup: Setup, runs: Any) -> dict[str, Any]:
    problem, lr = problem_of(setup), rate_of(setup)
    W1, W2 = path(runs["run"])
    nets = [{"W1": a, "W2": b} for a, b in zip(W1[:-1], W2[:-1], strict=True)]
    steps = [gd_step(problem, net, lr) for net in nets]
    found = {
        "W1": [step.W1 for step in steps],
        "W2": [step.W2 for step in steps],
        "R": [gd_force_step(problem, net, lr) for net in nets],
        "drift": [gd_imbalance_drift(problem, net, lr) for net in nets],
    }
    return sized({name: np.stack(values) for name, values in found.items()})


def _seen(runs: Any) -> dict[str, Any]:
    layers = path(runs["run"])
    return {
        "W1": layers.W1[1:],
        "W2": layers.W2[1:],
        "R": forces(runs["run"], layers.beta)[1:],
        # A difference of large numbers: small steps move them by little more than rounding.
        "drift": measured(np.diff(imbalance(*layers), axis=0), error=_rounded(layers)),
    }


def _rounded(layers: Any) -> float:
    """What rounding does to differences of W1ᵀW1 − W2W2ᵀ, over all steps."""
    squares = np.sum(layers.W1**2, axis=(1, 2)) + np.sum(layers.W2**2, axis=(1, 2))
    return 8 * float(np.finfo(np.float64).eps * np.linalg.norm(squares))


GD = Theorem(
    "spectral.gd",
    r"A step of descent makes $W_1^+ = W_1+\eta RW_2^T$, $W_2^+ = W_2+\eta W_1^TR$, "
    r"$R^+ = R - \eta A(MR+RN) - \eta^2AR\beta^TR$, and adds "
    r"$\eta^2(W_2R^TRW_2^T - W_1^TRR^TW_1)$ to the imbalance, exactly and from any start.",
    [PLAIN, QUIET, STEADY],
    _next,
    _seen,
    1e-10,
    cases.descent,
    [Control("no momentum", lambda key: cases.descent(key, momentum=0.5))],
    runs=_first_steps,
    given=("params",),
    errata=[
        Erratum(
            "Section C.1",
            r"$a^+ = a + \eta W^Ta$",
            r"$a^+ = a + \eta W^TR$",
            "numeric",
            evidence.second_layer_step,
        ),
        Erratum(
            "Section C.1",
            r"$R^+ = R - \eta A(WW^T+|a|^2)R - \eta^2(a^TWR)AR$",
            r"$R^+ = R - \eta A(WW^T+|a|^2)R - \eta^2(a^TW^TR)AR$",
            "numeric",
            evidence.force_step,
        ),
        Erratum(
            "Section C.1, whitened data",
            r"$R_t$ only grows in norm",
            r"$R_t$ keeps its direction and shrinks by $1-\eta(z_1^2+z_2^2)-\eta^2\rho z_1z_2$",
            "numeric",
            evidence.force_shrinks,
            note="and the update is aligned with R₀R₀ᵀ, for a₀ = 0 makes R₀a₀ᵀ zero",
        ),
    ],
    title="one step of descent, exactly",
    dynamics=(Descent,),
    **ABOUT,
)


def _recursion(setup: Setup) -> dict[str, Any]:
    layers = descended(setup)
    idle = np.full((len(layers.z1), setup.problem.d), np.sqrt(2 * gamma_of(setup)))
    idle[:, : layers.z1.shape[1]] = np.abs(layers.z1)
    return sized({"W1": _sorted(idle), "W2": _sorted(np.abs(layers.z2))})


def _sorted(values: np.ndarray) -> np.ndarray:
    return np.sort(values, axis=-1)[..., ::-1]


def _layer_values(runs: Any) -> dict[str, Any]:
    run = runs["run"]
    layers, problem = path(run), run.setup.problem
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
    [PLAIN, QUIET, STEADY, WHITENED, I_GAMMA, STABLE, SHORT],
    _recursion,
    _layer_values,
    1e-9,
    whitened,
    [Control("the data are whitened", cases.descent)],
    title="whitened data: descent decouples",
    dynamics=(Descent,),
    **ABOUT,
)


def _gammas(setup: Setup) -> np.ndarray:
    return effective_gamma(star(setup), gamma_of(setup), rate_of(setup), scale_of(setup))


def _second_order(setup: Setup) -> float:
    """What the next order may bring: δγ/γ, which moves σ(W1) by δγ/(2s), relatively.

    Descent lags the flow by ηcσ*/2, so that δγ/γ is as much of the first order; and its first
    step is too long, which brings ½(ηcσ*)² more.
    """
    sigma, gammas = star(setup), _gammas(setup)
    step = rate_of(setup) * scale_of(setup) * sigma
    more = step * (step + np.log(gamma_of(setup) / gammas))
    return float(np.max(gammas * more / (2 * np.hypot(sigma, gammas))))


def _shifted(setup: Setup) -> dict[str, Any]:
    sigma, gammas, d = star(setup), _gammas(setup), setup.problem.d
    found = [limit_singular_values([[s]], g, 1) for s, g in zip(sigma, gammas, strict=True)]
    first = np.full(d, np.sqrt(2 * gamma_of(setup)))
    first[: len(sigma)] = [f.W1[0] for f in found]
    return sized({"W1": _sorted(first), "W2": _sorted(np.array([f.W2[0] for f in found]))})


GAMMA_EFF = Theorem(
    "spectral.gamma_eff",
    r"On whitened data descent ends with the singular values of Corollary 3.1 for "
    r"$\gamma_i = \gamma e^{-\eta c(\Psi_\gamma(\sigma_i^\star)-\Psi_\gamma(0))}$ in place of "
    r"$\gamma$, up to $O(\eta^2)$.",
    [
        PLAIN,
        QUIET,
        STEADY,
        WHITENED,
        I_GAMMA,
        STABLE,
        Hypothesis("the step is small", _second_order, 0.1, True, "O(lr²)"),
    ],
    _shifted,
    _at_the_end,
    1e-8,
    whitened,
    [Control("the data are whitened", cases.descent)],
    title="a finite step is a smaller γ",
    dynamics=(Descent,),
    **ABOUT,
)
