"""Lemmas B.1 to B.4: noise along an orbit, and how strongly it draws a charge to rest."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...noise import Isotropic
from ...numerics.host_rng import generator
from ...theory.symmetry import (
    fixed_point,
    local_rate,
    moved_noise,
    orbit_charge,
    orbit_flow,
    printed,
    pull_bound,
    rescaling_rates,
)
from .._claims import at_least, at_most
from .._erratum import Erratum, Evidence
from .._theorem import Control
from . import _instances as cases
from ._facts import kappa
from ._facts_orbit import (
    DENSE,
    OTHER_NOISE,
    UNIT,
    all_moved,
    closed_stars,
    factor,
    flows_at,
    is_small,
    moved,
    points,
    seen_spectra,
    sigma,
    theorem,
    told_spectra,
)
from ._facts_units import MU

FAR, NEAR = 0.7, 1e-4


def covariances(setup: Setup, runs: Any) -> dict[str, Any]:
    """Σ at the moved point from Σ at the point."""
    p = points(runs)[-1]
    kept = looked_at(p)
    generator = np.diag(first_unit(p)[kept])
    return {"sigma": moved_noise(noise_among(setup, p, kept), generator, FAR)}


def seen_covariances(runs: Any) -> dict[str, Any]:
    """Σ there."""
    p = points(runs)[-1]
    there = moved(p, 0, FAR)
    return {"sigma": noise_among(runs["run"].setup, there, looked_at(p))}


def first_unit(params: Any) -> np.ndarray:
    """The diagonal of A, for the rescaling of the first unit; A has nothing else."""
    h = np.shape(params["W1"])[1]
    ones = {name: np.ones(np.shape(p)) for name, p in params.items()}
    image = UNIT.apply(ones, np.eye(h)[0])
    return np.concatenate([np.ravel(image[name]) for name in sorted(params)])


def looked_at(params: Any) -> np.ndarray:
    """Parameters whose covariance is compared: all; of large nets the first unit's and others."""
    size = sum(np.size(p) for p in params.values())
    if is_small(params):
        return np.arange(size)
    mine = np.flatnonzero(first_unit(params))
    spread = np.linspace(0, size - 1, max(DENSE - len(mine), len(mine))).astype(int)
    return np.union1d(mine, spread)


def noise_among(setup: Setup, params: Any, kept: np.ndarray) -> np.ndarray:
    """Σ of these parameters; from a root of it where not all are."""
    if is_small(params):
        return sigma(setup, params)
    rows = factor(setup, params)[kept]
    return rows @ rows.T


B1 = theorem(
    "equilibrium.lemmaB.1",
    r"Along an orbit the gradient noise is $\Sigma(e^{\lambda A}\theta) = "
    r"e^{-\lambda A}\,\Sigma(\theta)\,e^{-\lambda A}$.",
    "noise along an orbit",
    covariances,
    seen_covariances,
    1e-10,
)


def least_pulls(setup: Setup, runs: Any) -> dict[str, Any]:
    """The bound of Lemma B.2 for every unit."""
    found = [pull_bound(MU, s, kappa(setup))[1] for s, _ in told_spectra(setup, runs)]
    return {"pull": at_least(found)}


def seen_pulls(runs: Any) -> dict[str, Any]:
    """(dC/dt)/λ* from gradients."""
    setup, found = runs["run"].setup, []
    for p in points(runs):
        stars = closed_stars(setup, seen_spectra(setup, p))
        found.append(flows_at(setup, p) / stars)
    return {"pull": np.concatenate(found)}


B2 = theorem(
    "equilibrium.lemmaB.2",
    r"Without decay $\dot C/\lambda^* \ge 2\kappa\,\mathrm{Tr}[\Sigma^*A_\pm^2]$, with $A_+$ where "
    r"$\lambda^* > 0$ and $A_-$ where it is negative: the further from equilibrium, the stronger "
    r"the pull.",
    "how strongly noise pulls a charge",
    least_pulls,
    seen_pulls,
    decays=False,
    control=Control(OTHER_NOISE, lambda key: cases.pair(key, 0.0, Isotropic(1e-3))),
    errata=(
        Erratum("Eq (52)", "signs of the steps in between", "the conclusion holds", "convention"),
    ),
)


def charge_bound(mu: np.ndarray, s: np.ndarray, t: np.ndarray) -> float:
    """2θ*ᵀA±²θ* + 2θᵀA∓²θ."""
    lam = float(fixed_point(mu, s, t, 1.0))
    there, side = t * np.exp(2 * lam * mu), mu * lam > 0
    return float(2 * mu[side] ** 2 @ there[side] + 2 * mu[~side] ** 2 @ t[~side])


def distances(setup: Setup, runs: Any) -> dict[str, Any]:
    """The bound for every unit."""
    return {"distance": at_most([charge_bound(MU, s, t) for s, t in told_spectra(setup, runs)])}


def one_half(setup: Setup, runs: Any) -> dict[str, Any]:
    """The bound as printed."""
    bounds = [printed.charge_bound(MU, s, t)[1] for s, t in told_spectra(setup, runs)]
    return {"distance": at_most(bounds)}


def seen_distances(runs: Any) -> dict[str, Any]:
    """(C* − C)/λ* with C* from the moved parameters."""
    setup, found = runs["run"].setup, []
    for p in points(runs):
        lam = closed_stars(setup, seen_spectra(setup, p))
        found.append((UNIT.charge(all_moved(p, lam)) - UNIT.charge(p)) / lam)
    return {"distance": np.concatenate(found)}


def away(key: int, mu: np.ndarray, lam: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """σ² and θ² at a distance λ from an equilibrium with θ* about (1, 1)."""
    theta2 = generator(key, "equilibrium away").uniform(0.8, 1.2, size=2)
    return np.exp(2 * lam * mu) / np.abs(mu), theta2 * np.exp(-2 * lam * mu)


def printed_b3(key: int) -> Evidence:
    """(C* − C)/λ* over the printed bound, and over the corrected one."""
    s, t = away(key, MU)
    seen, bound = printed.charge_bound(MU, s, t)
    return Evidence(seen / bound, seen / charge_bound(MU, s, t))


B3 = theorem(
    "equilibrium.lemmaB.3",
    r"Without decay $(C^*-C)/\lambda^* \le 2\theta^{*\top}A_\pm^2\theta^* + "
    r"2\theta^\top A_\mp^2\theta$: the distance in $C$ is at most so many times that in $\lambda$.",
    "distance in the charge and along the orbit",
    distances,
    seen_distances,
    decays=False,
    control=Control("both halves of A count", lambda key: cases.pair(key, 0.0), one_half),
    errata=(
        Erratum(
            "Lemma B.3",
            r"$-(C-C^*)/\lambda^* \le 2\theta^{*\top}A_\pm^2\theta^*$",
            r"$+\,2\theta^\top A_\mp^2\theta$ on the right",
            "bound",
            printed_b3,
            "The other half of A enters with the opposite sign.",
        ),
    ),
)


def rates(setup: Setup, runs: Any) -> dict[str, Any]:
    """The least and the largest rate for every unit, and the rate near equilibrium."""
    units = told_spectra(setup, runs)
    slow, fast = np.transpose(
        [rescaling_rates(s[0], s[1], t[0], t[1], kappa(setup)) for s, t in units]
    )
    near = [local_rate(MU, s, t, kappa(setup)) for s, t in units]
    return {"slowest": at_least(slow), "fastest": at_most(fast), "local": near}


def seen_rates(runs: Any) -> dict[str, Any]:
    """−(dC/dt)/(C − C*) from gradients, at the points and next to their equilibria."""
    setup, far, near = runs["run"].setup, [], []
    for p in points(runs):
        lam = closed_stars(setup, seen_spectra(setup, p))
        rest = UNIT.charge(all_moved(p, lam))
        far.append(_rates(setup, p, rest))
        around = [_rates(setup, all_moved(p, lam + e), rest) for e in (NEAR, -NEAR)]
        near.append(sum(around) / 2)
    far, near = np.concatenate(far), np.concatenate(near)
    return {"slowest": far, "fastest": far, "local": near}


def _rates(setup: Setup, params: Any, rest: np.ndarray) -> np.ndarray:
    return -flows_at(setup, params) / (UNIT.charge(params) - rest)


def printed_b4(key: int) -> Evidence:
    """The printed least rate over the true one, for μ = (1, −2); the corrected one for ±1."""
    mu = np.array([1.0, -2.0])
    seen, bound = printed.rate_bound(mu, *away(key, mu), 1.0)
    s, t = away(key, MU)
    lam = float(fixed_point(MU, s, t, 1.0))
    ends = [float(orbit_charge(x, MU, t)) for x in (0.0, lam)]
    true = -float(orbit_flow(0.0, MU, s, t, 1.0)) / (ends[0] - ends[1])
    return Evidence(bound / seen, rescaling_rates(s[0], s[1], t[0], t[1], 1.0)[0] / true)


B4 = theorem(
    "equilibrium.corB.4",
    r"A rescaling without decay is drawn to equilibrium at a rate $-\dot C/(C-C^*)$ between "
    r"$\kappa s/\max(p,q)$ and $\kappa s/\min(p,q)$, $p = \|\theta^*_+\|^2$, $q = "
    r"\|\theta^*_-\|^2$, $s = \mathrm{Tr}\Sigma^*_\pm$; near equilibrium it is "
    r"$\kappa\mathrm{Tr}[\Sigma^*A^2]/\theta^{*\top}A^2\theta^*$ for any $A$.",
    "the rate of equilibration",
    rates,
    seen_rates,
    {"slowest": 1e-9, "fastest": 1e-9, "local": 1e-5},
    decays=False,
    errata=(
        Erratum(
            "Cor. B.4, Eq (62)",
            r"$\dot C/(C-C^*) \le "
            r"-\sigma^2\mathrm{Tr}[\Sigma^*A_\pm^2]/\theta^{*\top}A_\pm^2\theta^*$ "
            r"for any $A$",
            r"only for spectra of $0, \pm m$, with $\max(p,q)$; with other spectra there is no "
            r"exponential rate that holds everywhere",
            "bound",
            printed_b4,
        ),
    ),
)

THEOREMS = (B1, B2, B3, B4)
