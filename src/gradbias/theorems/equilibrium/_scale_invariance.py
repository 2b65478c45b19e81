"""Scale invariance, A = I: noise makes the norm grow, decay holds it."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import NormalisedA
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory.symmetry import equilibrium_norm, fixed_point, orbit_flow, printed
from .. import _shared_hypotheses as common
from .._claims import equals, measured
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis, kind
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Ensemble, Theorem
from . import _instances as cases
from ._charges import squares
from ._facts import decay, kappa, sgd
from ._measurements import CHANCE, draws, late

LR, DECAY, MEMBERS = 0.05, 0.01, 12
LATE = np.concatenate([[0], np.arange(3000, 6001, 300)])


def long(key: int, gamma: float = DECAY, grown: float = 1.0) -> Setup:
    """SGD for twelve times 1/4ηγ."""
    params = {n: grown * p for n, p in cases.scale(key).params.items()}
    moves = Descent(LR, cases.BATCHES, weight_decay=gamma)
    until = Until(steps=int(LATE[-1]))
    given = {"params": params, "dynamics": moves, "until": until, "save_at": LATE}
    return cases.scale(key, **given)


def ensemble(setup: Setup) -> Ensemble:
    """Many draws."""
    return draws(setup, MEMBERS)


def norms(data: Any) -> np.ndarray:
    """‖θ‖², (members, saves)."""
    u, w = data["params_u"].values, data["params_w"].values
    return np.sum(u * u, axis=(-2, -1)) + np.sum(w * w, axis=(-2, -1))


def told_norm(setup: Setup, runs: Any) -> dict[str, Any]:
    """The norm at which the run's own pushes and its decay agree, from late saves."""
    data = runs["run"]
    per = common.learning_rate(setup) / kappa(setup)
    # Both pushes fall as 1/‖θ‖²; that of the mean gradient is small beside the noise, not nothing.
    traces = data["push_noise"].values + per * data["push_mean"].values
    # Every point of the path tells a fourth power of the norm.
    product = float(late(data, traces * norms(data)).value)
    return {"norm": equilibrium_norm(product, 1.0, kappa(setup), decay(setup))}


def seen_norm(runs: Any) -> dict[str, Any]:
    """The norm over members and late saves."""
    found = late(runs["run"], norms(runs["run"]))
    mean = float(np.sqrt(found.value))
    assert found.standard_error is not None
    return {"norm": measured(mean, standard_error=found.standard_error / (2 * mean))}


def printed_24(key: int) -> Evidence:
    """d‖θ‖²/dt = 0 at the printed and at the corrected norm, with Tr Σ ∝ 1/‖θ‖²."""
    rng = generator(key, "equilibrium printed 24")
    trace, rates = rng.uniform(0.5, 2.0), (LR / 2, DECAY)
    found = []
    for norm in (
        printed.equilibrium_norm(trace, 1.0, *rates),
        equilibrium_norm(trace, 1.0, *rates),
    ):
        grow, shrink = rates[0] * trace / norm**2, 4 * rates[1] * norm**2
        found.append(abs(grow - shrink) / shrink)
    return Evidence(*found)


EQ24 = Theorem(
    "equilibrium.eq24",
    r"Scale-invariant weights: $\frac{d}{dt}\|\theta\|^2 = -4\gamma\|\theta\|^2+\kappa\,\mathrm{Tr}"
    r"\Sigma$, and $\mathrm{Tr}\Sigma \propto 1/\|\theta\|^2$, so the norm stops at "
    r"$\|\theta^*\|^4 = \kappa\,\mathrm{Tr}\Sigma(\theta/\|\theta\|)/4\gamma$ (with the term of a "
    r"finite step added to the noise); without decay it grows for ever.",
    [
        *sgd(),
        kind("there is weight decay", lambda s: decay(s) > 0),
        kind("the run is long", lambda s: _long_enough(s)),
        Hypothesis("ηγ is small", lambda s: _grade(s), 0.3, graded=True, order="O(√(ηγ))"),
    ],
    told_norm,
    seen_norm,
    CHANCE,
    long,
    [
        Control(
            "decay holds the norm",
            lambda key: long(key, 1e-9, grown=30.0),
            lambda s, runs: told_norm(long(s.key), runs),
        )
    ],
    runs=ensemble,
    nets=(NormalisedA,),
    needs=cases.PUSHED,
    given=("gradient noise",),
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (24)",
            r"$\frac{d}{dt}\|\theta\|^2 = -\gamma\|\theta\|^2+\sigma^2\mathrm{Tr}\Sigma$",
            r"$-4\gamma\|\theta\|^2+\kappa\mathrm{Tr}\Sigma$",
            "numeric",
            printed_24,
        ),
    ),
    source=SOURCE,
    title="the norm that decay and noise agree on",
    slow=True,
)


def _long_enough(setup: Setup) -> bool:
    steps = np.asarray(setup.save_at)
    rate = 4 * common.learning_rate(setup) * decay(setup)
    return len(steps) > 2 and bool(rate * steps[1] >= 6)


def _grade(setup: Setup) -> float:
    # At equilibrium directions turn with a step η/‖θ‖² ∝ √(ηγ): the norm fluctuates that much.
    return float(np.sqrt(common.learning_rate(setup) * decay(setup)))


GRID = np.array([-1.0, -0.3, -0.05, 0.05, 0.3, 1.0])


def spectrum(setup: Setup, runs: Any) -> tuple[float, float]:
    """Tr Σ and ‖θ‖² at the end of a run."""
    return float(runs["run"].data["push_noise"].values[-1]), float(squares(runs["run"])[-1])


def told_signs(setup: Setup, runs: Any) -> dict[str, Any]:
    """G on the ray through the point: one zero with decay, none without."""
    trace, size = spectrum(setup, runs)
    rates = kappa(setup), decay(setup)
    lam = float(fixed_point([1.0], [trace], [size], *rates))
    at = GRID + (lam if np.isfinite(lam) else 0.0)
    flow = np.asarray(orbit_flow(at, [1.0], [trace], [size], *rates))
    sign = -np.sign(GRID) if np.isfinite(lam) else np.ones(len(GRID))
    return {"sign": sign, "flow": equals(flow, scale=np.abs(flow))}


def seen_signs(runs: Any) -> dict[str, Any]:
    """The drift of ‖θ‖² at scaled weights, from gradients."""
    setup, last = runs["run"].setup, cases.path(runs["run"].data)[-1]
    trace, size = spectrum(setup, runs)
    rates = kappa(setup), decay(setup)
    lam = 0.25 * np.log(rates[0] * trace / (4 * rates[1] * size)) if rates[1] else 0.0
    found = []
    for at in GRID + lam:
        moved = {n: np.exp(at) * p for n, p in last.items()}
        found.append(float(cases.here(setup, moved, include_gd=False)["u,w"].total))
    return {"sign": np.sign(found), "flow": np.asarray(found)}


def any_gamma(key: int) -> Evidence:
    """The least |G| on a wide grid, over its two pulls: for γ < 0 there is no zero."""
    trace, size = generator(key, "equilibrium any gamma").uniform(0.5, 2.0, size=2)
    lams, least = np.linspace(-3, 3, 20_001), []
    for gamma in (-DECAY, DECAY):
        flow = np.asarray(orbit_flow(lams, [1.0], [trace], [size], LR, gamma))
        pulls = LR * trace * np.exp(-2 * lams) + 4 * DECAY * size * np.exp(2 * lams)
        least.append(float(np.min(np.abs(flow) / pulls)))
    return Evidence(*least)


def short(key: int) -> Setup:
    """A short run, with or without decay."""
    return cases.scale(key, cases.DECAY * (1 - key % 2))


def without(setup: Setup, runs: Any) -> dict[str, Any]:
    """What would be if there were no decay."""
    return told_signs(cases.scale(setup.key, 0.0), runs)


THMD1 = Theorem(
    "equilibrium.thmD.1",
    r"With $\gamma \ge 0$ the drift $G$ along an orbit has exactly one zero if it has both "
    r"signs, and "
    r"none if it has one; for $A = I$: at a finite norm with decay, at infinity without.",
    sgd(),
    told_signs,
    seen_signs,
    1e-9,
    short,
    [
        Control(
            "γ is that of the run",
            cases.scale,
            without,
        )
    ],
    nets=(NormalisedA,),
    needs=cases.PUSHED,
    given=("path",),
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Thm D.1",
            r"a unique zero for any $\gamma \in R$, if $\mathrm{Tr}[\Sigma A] \ne 0$ or "
            r"$\theta^\top A\theta \ne 0$",
            r"$\gamma \ge 0$ and $G$ not identically 0; for $\gamma < 0$ and $A = I$ there is "
            r"no zero",
            "numeric",
            any_gamma,
            "γ = 0, ΣA = 0 and C ≠ 0 meet the printed premise, and G = 0 everywhere.",
        ),
    ),
    source=SOURCE,
    title="when there is exactly one equilibrium",
)

THEOREMS = (EQ24, THMD1)
