"""Lemmas B.1 to B.4: noise along an orbit, and how strongly it draws a charge to rest."""

import numpy as np

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
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Evidence,
    Measurements,
    Run,
    Setup,
    at_least,
    at_most,
    setup_of,
)
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
    measured_spectra,
    moved,
    points,
    predicted_spectra,
    sigma,
    theorem,
)
from ._facts_units import MU

FAR = 0.7
NEAR = 1e-4


def predict_covariances(setup: Setup, run: Run) -> Claims:
    """Σ at the moved point from Σ at the point."""
    p = points(run)[-1]
    kept = compared_entries(p)
    generator = np.diag(first_unit(p)[kept])
    return {"sigma": moved_noise(noise_among(setup, p, kept), generator, FAR)}


def measure_covariances(run: Run) -> Measurements:
    """Σ there."""
    p = points(run)[-1]
    there = moved(p, 0, FAR)
    return {"sigma": noise_among(setup_of(run), there, compared_entries(p))}


def first_unit(params: cases.Params) -> np.ndarray:
    """The diagonal of A, for the rescaling of the first unit; A has nothing else."""
    h = np.shape(params["W1"])[1]
    ones = {name: np.ones(np.shape(p)) for name, p in params.items()}
    image = UNIT.apply(ones, np.eye(h)[0])
    return np.concatenate([np.ravel(image[name]) for name in sorted(params)])


def compared_entries(params: cases.Params) -> np.ndarray:
    """Parameters whose covariance is compared: all; of large nets the first unit's and others."""
    size = sum(np.size(p) for p in params.values())
    if is_small(params):
        return np.arange(size)
    mine = np.flatnonzero(first_unit(params))
    spread = np.linspace(0, size - 1, max(DENSE - len(mine), len(mine))).astype(int)
    return np.union1d(mine, spread)


def noise_among(setup: Setup, params: cases.Params, kept: np.ndarray) -> np.ndarray:
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
    predict_covariances,
    measure_covariances,
    1e-10,
)


def predict_pulls(setup: Setup, run: Run) -> Claims:
    """The bound of Lemma B.2 for every unit."""
    bounds = [pull_bound(MU, s, kappa(setup))[1] for s, _ in predicted_spectra(setup, run)]
    return {"pull": at_least(bounds)}


def measure_pulls(run: Run) -> Measurements:
    """(dC/dt)/λ* from gradients."""
    setup = setup_of(run)
    pulls = []
    for p in points(run):
        stars = closed_stars(setup, measured_spectra(setup, p))
        pulls.append(flows_at(setup, p) / stars)
    return {"pull": np.concatenate(pulls)}


B2 = theorem(
    "equilibrium.lemmaB.2",
    r"Without decay $\dot C/\lambda^* \ge 2\kappa\,\mathrm{Tr}[\Sigma^*A_\pm^2]$, with $A_+$ where "
    r"$\lambda^* > 0$ and $A_-$ where it is negative: the further from equilibrium, the stronger "
    r"the pull.",
    "how strongly noise pulls a charge",
    predict_pulls,
    measure_pulls,
    decays=False,
    control=Control(OTHER_NOISE, lambda key: cases.pair(key, 0.0, Isotropic(1e-3))),
    errata=(
        Erratum(
            "Lemma B.2, the line after (52)",
            r"$\mathrm{Tr}[\Sigma^*(e^{2\lambda^*A_-}-I)A_-] < 0$ for $\lambda^* > 0$",
            r"$\ge 0$, as (53) needs it",
            "misprint",
            quote="Ifλ∗>0,Tr[Σ(θ∗)(e2λ∗A−−I)A−]<0",
        ),
    ),
)


def charge_bound(mu: np.ndarray, s: np.ndarray, t: np.ndarray) -> float:
    """2θ*ᵀA±²θ* + 2θᵀA∓²θ."""
    lam = float(fixed_point(mu, s, t, 1.0))
    there = t * np.exp(2 * lam * mu)
    side = mu * lam > 0
    return float(2 * mu[side] ** 2 @ there[side] + 2 * mu[~side] ** 2 @ t[~side])


def predict_distances(setup: Setup, run: Run) -> Claims:
    """The bound for every unit."""
    return {"distance": at_most([charge_bound(MU, s, t) for s, t in predicted_spectra(setup, run)])}


def predict_half_distances(setup: Setup, run: Run) -> Claims:
    """The bound as printed."""
    bounds = [printed.charge_bound(MU, s, t)[1] for s, t in predicted_spectra(setup, run)]
    return {"distance": at_most(bounds)}


def measure_distances(run: Run) -> Measurements:
    """(C* − C)/λ* with C* from the moved parameters."""
    setup = setup_of(run)
    distances = []
    for p in points(run):
        lam = closed_stars(setup, measured_spectra(setup, p))
        distances.append((UNIT.charge(all_moved(p, lam)) - UNIT.charge(p)) / lam)
    return {"distance": np.concatenate(distances)}


def away(key: int, mu: np.ndarray, lam: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """σ² and θ² at a distance λ from an equilibrium with θ* about (1, 1)."""
    theta2 = generator(key, "equilibrium away").uniform(0.8, 1.2, size=2)
    return np.exp(2 * lam * mu) / np.abs(mu), theta2 * np.exp(-2 * lam * mu)


def printed_b3(key: int) -> Evidence:
    """(C* − C)/λ* over the printed bound, and over the corrected one."""
    s, t = away(key, MU)
    true, bound = printed.charge_bound(MU, s, t)
    return Evidence(true / bound, true / charge_bound(MU, s, t))


B3 = theorem(
    "equilibrium.lemmaB.3",
    r"Without decay $(C^*-C)/\lambda^* \le 2\theta^{*\top}A_\pm^2\theta^* + "
    r"2\theta^\top A_\mp^2\theta$: the distance in $C$ is at most so many times that in $\lambda$.",
    "distance in the charge and along the orbit",
    predict_distances,
    measure_distances,
    decays=False,
    control=Control(
        "one half of A alone counts",
        lambda key: cases.pair(key, 0.0),
        predict_half_distances,
        formula=True,
    ),
    errata=(
        Erratum(
            "Lemma B.3",
            r"$-(C-C^*)/\lambda^* \le 2\theta^{*\top}A_\pm^2\theta^*$",
            r"$+\,2\theta^\top A_\mp^2\theta$ on the right",
            "false",
            evidence=printed_b3,
            bound=True,
            quote="−C−C∗ λ∗≤{2(θ∗)⊺A2 +θ∗ifλ∗>0;",
            note="The other half of A enters with the opposite sign.",
        ),
    ),
)


def predict_rates(setup: Setup, run: Run) -> Claims:
    """The least and the largest rate for every unit, and the rate near equilibrium."""
    units = predicted_spectra(setup, run)
    slow, fast = np.transpose(
        [rescaling_rates(s[0], s[1], t[0], t[1], kappa(setup)) for s, t in units]
    )
    near = [local_rate(MU, s, t, kappa(setup)) for s, t in units]
    return {"slowest": at_least(slow), "fastest": at_most(fast), "local": near}


def measure_rates(run: Run) -> Measurements:
    """−(dC/dt)/(C − C*) from gradients, at the points and next to their equilibria."""
    setup = setup_of(run)
    far = []
    near = []
    for p in points(run):
        lam = closed_stars(setup, measured_spectra(setup, p))
        rest = np.asarray(UNIT.charge(all_moved(p, lam)))
        far.append(_rates_towards(setup, p, rest))
        around = [_rates_towards(setup, all_moved(p, lam + e), rest) for e in (NEAR, -NEAR)]
        near.append(sum(around) / 2)
    far = np.concatenate(far)
    near = np.concatenate(near)
    return {"slowest": far, "fastest": far, "local": near}


def _rates_towards(setup: Setup, params: cases.Params, rest: np.ndarray) -> np.ndarray:
    return -flows_at(setup, params) / (UNIT.charge(params) - rest)


def printed_b4(key: int) -> Evidence:
    """The printed least rate over the true one, for μ = (1, −2); the corrected one for ±1."""
    mu = np.array([1.0, -2.0])
    rate, bound = printed.rate_bound(mu, *away(key, mu), 1.0)
    s, t = away(key, MU)
    lam = float(fixed_point(MU, s, t, 1.0))
    ends = [float(orbit_charge(x, MU, t)) for x in (0.0, lam)]
    true = -float(orbit_flow(0.0, MU, s, t, 1.0)) / (ends[0] - ends[1])
    return Evidence(bound / rate, rescaling_rates(s[0], s[1], t[0], t[1], 1.0)[0] / true)


B4 = theorem(
    "equilibrium.corB.4",
    r"A rescaling without decay is drawn to equilibrium at a rate $-\dot C/(C-C^*)$ between "
    r"$\kappa s/\max(p,q)$ and $\kappa s/\min(p,q)$, $p = \|\theta^*_+\|^2$, $q = "
    r"\|\theta^*_-\|^2$, $s = \mathrm{Tr}\Sigma^*_\pm$; near equilibrium it is "
    r"$\kappa\mathrm{Tr}[\Sigma^*A^2]/\theta^{*\top}A^2\theta^*$ for any $A$.",
    "the rate of equilibration",
    predict_rates,
    measure_rates,
    {"slowest": 1e-9, "fastest": 1e-9, "local": 1e-5},
    decays=False,
    errata=(
        Erratum(
            "Corollary B.4, Eq (62)",
            r"$\dot C/(C-C^*) \le "
            r"-\sigma^2\mathrm{Tr}[\Sigma^*A_\pm^2]/\theta^{*\top}A_\pm^2\theta^*$ "
            r"for any $A$",
            r"only for spectra of $0, \pm m$, with $\max(p,q)$; with other spectra there is no "
            r"exponential rate that holds everywhere",
            "false",
            evidence=printed_b4,
            bound=True,
            quote="Corollary B.4. ˙C C−C∗≤",
        ),
    ),
)

THEOREMS = (B1, B2, B3, B4)
