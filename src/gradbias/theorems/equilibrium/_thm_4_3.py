"""Theorem 4.3: on every orbit one equilibrium, towards which the charge is driven."""

import numpy as np

from ...theory.symmetry import fixed_point, orbit_flow
from ..prelude import Claims, Erratum, Measurements, Run, Setup, at_least, at_most, equals, setup_of
from . import _instances as cases
from ._facts import decay, kappa
from ._facts_orbit import (
    all_moved,
    closed_stars,
    flows_at,
    measured_spectra,
    moved,
    points,
    theorem,
)
from ._facts_units import MU, Spectra, spectra

GRID = np.linspace(-1.5, 1.5, 7)
AWAY = np.array([-1.0, -0.1, -0.01, 0.01, 0.1, 1.0])
SMALL = 1e-4


def predict_falls(setup: Setup, run: Run) -> Claims:
    """G on a grid of λ from the last point, for the first unit; and that it falls."""
    sigma2, theta2 = spectra(setup.problem, points(run)[-1])[0]
    flow = np.asarray(orbit_flow(GRID, MU, sigma2, theta2, kappa(setup), decay(setup)))
    top = float(np.max(np.abs(flow)))
    return {"flow": equals(flow, scale=np.abs(flow)), "fall": at_most(np.zeros(len(GRID) - 1), top)}


def measured_flows(run: Run, grid: np.ndarray) -> np.ndarray:
    """G at moved points, from gradients."""
    setup = setup_of(run)
    last = points(run)[-1]
    return np.array([flows_at(setup, moved(last, 0, lam))[0] for lam in grid])


def measure_falls(run: Run) -> Measurements:
    """G at moved points, and its differences."""
    flow = measured_flows(run, GRID)
    return {"flow": flow, "fall": np.diff(flow)}


THM431 = theorem(
    "equilibrium.thm4.3.1",
    r"On the orbit $\theta_\lambda = e^{\lambda A}\theta$ the drift of the charge is "
    r"$G(\lambda) = -4\gamma\sum_i\mu_ie^{2\lambda\mu_i}\theta_i^2 + "
    r"\kappa\sum_i\mu_ie^{-2\lambda\mu_i}\sigma_i^2$ with $\sigma_i^2$ the noise along the "
    r"eigenvectors of $A$, and it falls with $\lambda$.",
    "the drift falls along the orbit",
    predict_falls,
    measure_falls,
    large=True,
    errata=(
        Erratum(
            "Theorem 4.3, proof",
            r"$I_1$ strictly increasing, from $+\infty$ to 0; eigenvalues $a e^{\lambda "
            r"a}$; $(n_i^\top\theta_i)^2$, and that squared",
            r"$I_1$ decreasing; $a e^{2\lambda a}$; $(n_i^\top\theta)^2$ once",
            "misprint",
            quote="I1is either a zero function or strictly monotonically increasing function "
            "with I1(−∞)=+∞, I1(+∞)=0",
        ),
    ),
)


def stars(setup: Setup, units: Spectra) -> list[float]:
    """λ* of every unit, by theory."""
    return [float(fixed_point(MU, s, t, kappa(setup), decay(setup))) for s, t in units]


def predict_rests(setup: Setup, run: Run) -> Claims:
    """No drift at e^{λ*A}θ, for any unit at the first and the last point."""
    count = sum(len(spectra(setup.problem, p)) for p in points(run))
    return {"flow": equals(np.zeros(count), scale=1.0)}


def measure_rests(run: Run) -> Measurements:
    """The drift at the predicted equilibria over that of either pull alone."""
    setup = setup_of(run)
    ratios = []
    for p in points(run):
        there = all_moved(p, np.array(stars(setup, spectra(setup.problem, p))))
        pulls = [
            kappa(setup) * s[0] + 4 * decay(setup) * t[1] for s, t in measured_spectra(setup, there)
        ]
        ratios.append(flows_at(setup, there) / pulls)
    return {"flow": np.concatenate(ratios)}


THM432 = theorem(
    "equilibrium.thm4.3.2",
    r"A charge with pulls both ways has an equilibrium on its orbit: $G(\lambda^*) = 0$, with a "
    r"spectrum of $\pm1$ at $\lambda^* = \frac{1}{4}\ln\frac{\kappa a+4\gamma\|\theta_-\|^2}"
    r"{\kappa b+4\gamma\|\theta_+\|^2}$; without noise on one side it is at infinity.",
    "an equilibrium on every orbit",
    predict_rests,
    measure_rests,
    large=True,
)


def predict_signs(setup: Setup, run: Run) -> Claims:
    """The drift points to λ*, where the noise is least."""
    return {"sign": -np.sign(AWAY), "potential": at_least(np.zeros(len(AWAY)), scale=1.0)}


def measure_signs(run: Run) -> Measurements:
    """The sign of the drift on both sides, and the noise beyond that of the equilibrium."""
    setup = setup_of(run)
    last = points(run)[-1]
    lam = stars(setup, spectra(setup.problem, last))[0]

    def potential(at: float) -> float:
        s, t = measured_spectra(setup, moved(last, 0, at))[0]
        return float(kappa(setup) * s.sum() + 4 * decay(setup) * t.sum())

    above = [potential(lam + x) / potential(lam) - 1 for x in AWAY]
    return {"sign": np.sign(measured_flows(run, lam + AWAY)), "potential": np.asarray(above)}


THM433 = theorem(
    "equilibrium.thm4.3.3",
    r"The equilibrium is the only one: $C$ is driven towards it from both sides, and it is the "
    r"point of the orbit with the least $\kappa\,\mathrm{Tr}\Sigma + 4\gamma\|\theta\|^2$, whose "
    r"slope is $-2G$.",
    "one equilibrium, of least noise",
    predict_signs,
    measure_signs,
    large=True,
)


def small_move(setup: Setup, params: cases.Params) -> float:
    """A move that changes no noise by more than a little of itself, however small it is."""
    problem = setup.problem
    losses = [float(problem.net_loss(setup.net, p)) for p in (params, setup.params)]
    size = SMALL * min(1.0, (losses[0] / losses[1]) ** 0.5) if losses[1] > 0 else SMALL
    here, there = (np.array(spectra(problem, p)) for p in (params, either_side(params, size)[0]))
    change = float(np.max(np.abs(there - here) / here))
    return size * min(1.0, SMALL / change)


def either_side(params: cases.Params, size: float) -> list[dict[str, np.ndarray]]:
    """The point moved a little, both ways, in a direction that no symmetry knows.

    Every unit moves by its own size.
    """
    sizes = {n: np.linalg.norm(params[n], axis=a, keepdims=True) for n, a in (("W1", 0), ("W2", 1))}
    way = {
        n: x * np.cos(1 + np.arange(params[n].size)).reshape(-1, params[n].shape[1])
        for n, x in sizes.items()
    }
    return [{n: params[n] + e * size * way[n] for n in params} for e in (1, -1)]


def predict_slopes(setup: Setup, run: Run) -> Claims:
    """dλ*/dθ in that direction, by the implicit function theorem."""
    slopes = []
    for p in points(run):
        size = small_move(setup, p)
        ends = [spectra(setup.problem, q) for q in either_side(p, size)]
        for j, (s, t) in enumerate(spectra(setup.problem, p)):
            star = fixed_point(MU, s, t, kappa(setup), decay(setup))
            ds, dt = ((a - b) / (2 * size) for a, b in zip(ends[0][j], ends[1][j], strict=True))
            slopes.append(float(star.d_sigma2 @ ds + star.d_theta2 @ dt))
    return {"slope": np.asarray(slopes)}


def measure_slopes(run: Run) -> Measurements:
    """Differences of λ* itself, from the noise of the run at both moved points."""
    setup = setup_of(run)
    slopes = []
    for p in points(run):
        size = small_move(setup, p)
        ends = [closed_stars(setup, measured_spectra(setup, q)) for q in either_side(p, size)]
        slopes.append((ends[0] - ends[1]) / (2 * size))
    return {"slope": np.concatenate(slopes)}


THM434 = theorem(
    "equilibrium.thm4.3.4",
    r"$\lambda^*$ is a differentiable function of $\theta$, with $d\lambda^* = "
    r"-\partial_\theta G\cdot d\theta/\partial_\lambda G$: a small move of $\theta$ moves the "
    r"equilibrium little.",
    "the equilibrium moves smoothly",
    predict_slopes,
    measure_slopes,
    1e-6,
)

THEOREMS = (THM431, THM432, THM433, THM434)
