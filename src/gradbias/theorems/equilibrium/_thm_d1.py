"""Theorem D.1: a step of any size and any batch has one equilibrium on every orbit."""

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from ...dynamics import Descent, Flow
from ...nets import NormalisedA, TwoLayer
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...numerics.precision import host
from ...problems import Regression
from ...theory.symmetry import fixed_point, orbit_flow
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Evidence,
    Hypothesis,
    Measured,
    Measurements,
    Predict,
    Setup,
    Theorem,
    Until,
    at_most,
    common,
    equals,
    fact,
    kind,
    measured,
)
from . import _instances as cases
from ._facts import constant_lr, decay, kappa, no_momentum
from ._facts_orbit import moved
from ._facts_units import MU, charges, mean_squares, spectra
from ._paper import PAPER

AWAY = np.array([-1.0, -0.3, -0.05, 0.0, 0.05, 0.3, 1.0])  # from the predicted zero
ROUNDING = 8 * float(np.finfo(np.float64).eps)  # of squares: what differences of them may be off
MOST = 256  # batches that are all tried
LAWS = (Minibatch(1), Minibatch(2, replace=True), Minibatch(2))


class SquaresOfStep(NamedTuple):
    """Along the eigenvectors of A, by its eigenvalues.

    Attributes:
        mu: the eigenvalues.
        noise: the variance of a batch's gradient.
        mean: the square of the mean gradient.
        theta: θ².
    """

    mu: np.ndarray
    noise: np.ndarray
    mean: np.ndarray
    theta: np.ndarray


@fact
def squares(setup: Setup) -> SquaresOfStep:
    """Of the first unit of a factorisation, in closed form; of all weights of a normalised net."""
    share = kappa(setup) / common.learning_rate(setup)
    if isinstance(setup.net, TwoLayer):
        noise, theta = spectra(setup.problem, setup.params)[0]
        mean = mean_squares(common.quadratic(setup), setup.params)[0]
        return SquaresOfStep(MU, share * noise, mean, theta)
    push = _pushed(setup)
    size = sum(float(np.sum(np.square(p))) for p in setup.params.values())
    numbers = (share * push["noise"], push["mean"], size)
    return SquaresOfStep(np.ones(1), *(np.array([float(x)]) for x in numbers))


@host
def _pushed(setup: Setup) -> dict[str, float]:
    problem = common.regression(setup)
    of_mean = (float(problem.weight) * problem.n) ** 2  # `push` is of ‖f − y‖²
    pushed = cases.push(problem, setup.net, setup.params)
    return {name: of_mean * float(value) for name, value in pushed.items()}


def zero(setup: Setup, uncentred: np.ndarray) -> float:
    """λ* of the discrete drift; 0 where there is none."""
    lr = common.learning_rate(setup)
    found = squares(setup)
    lam = float(fixed_point(found.mu, uncentred, found.theta, lr, _per_step(setup)))
    return lam if np.isfinite(lam) else 0.0


def _per_step(setup: Setup) -> float:
    """γ(1 − ηγ): a step takes (1 − 2ηγ)² = 1 − 4ηγ(1 − ηγ) of a charge."""
    gamma = decay(setup)
    return gamma * (1 - common.learning_rate(setup) * gamma)


def uncentred(setup: Setup, name: str) -> np.ndarray:
    """E[gᵀPg] of a batch along the eigenvectors, of SGD or of GD."""
    found = squares(setup)
    return found.mean + (found.noise if name == "SGD" else 0.0)


def places(setup: Setup, name: str) -> np.ndarray:
    """λ at which the drift is looked at."""
    return AWAY + zero(setup, uncentred(setup, name))


def count(setup: Setup) -> float:
    """How many batches there are."""
    n = common.regression(setup).n
    batch = common.minibatch(setup)
    if batch is None:
        return 1
    return float(n) ** batch.batch_size if batch.replace else math.comb(n, batch.batch_size)


def batches(setup: Setup) -> list[tuple[int, ...]]:
    """All of them, equally likely."""
    rows = range(common.regression(setup).n)
    batch = common.minibatch(setup)
    if batch is None:
        return [tuple(rows)]
    if batch.replace:
        return list(itertools.product(rows, repeat=batch.batch_size))
    return list(itertools.combinations(rows, batch.batch_size))


def at(setup: Setup, lam: float) -> dict[str, np.ndarray]:
    """e^{λA}θ."""
    if isinstance(setup.net, TwoLayer):
        return moved(setup.params, 0, lam)
    return {name: np.exp(lam) * np.asarray(p) for name, p in setup.params.items()}


def steps(setup: Setup) -> dict[str, Ensemble]:
    """One step from points of the orbit: with every batch there is, and with all samples."""
    problem = common.regression(setup)
    X, Y = (np.asarray(a) for a in (problem.X, problem.labels))
    moves = setup.dynamics
    lr = common.learning_rate(setup)
    if isinstance(moves, Flow):
        until = Until(time=cases.LR)
        saves = np.array([0.0, cases.LR])
    else:
        moves = Descent(lr, weight_decay=decay(setup))
        until = Until(steps=1)
        saves = np.array([0, 1])

    def all_of(name: str, rows: list[tuple[int, ...]]) -> Ensemble:
        where = places(_stepping(setup), name)

        def build(batch: int, place: int) -> Setup:
            chosen = list(rows[batch])
            weight = float(problem.weight) * problem.n / len(chosen)
            return setup.replace(
                problem=Regression(X[chosen], Y[chosen], weight),
                params=at(setup, where[place]),
                dynamics=moves,
                until=until,
                save_at=saves,
                record=cases.PARAMS,
            )

        return Ensemble(build, {"batch": range(len(rows)), "place": range(len(where))})

    return {"SGD": all_of("SGD", batches(setup)), "GD": all_of("GD", [tuple(range(problem.n))])}


def _stepping(setup: Setup) -> Setup:
    """The same with steps, if it is a flow's."""
    if not isinstance(setup.dynamics, Flow):
        return setup
    moves = Descent(cases.LR, LAWS[1], weight_decay=decay(setup))
    return setup.replace(dynamics=moves, until=Until(steps=1), save_at=[0, 1])


def predict_steps(
    setup: Setup, noise: float = 1.0, mean: float = 1.0, gamma: float = 1.0
) -> Claims:
    """E[ΔC] of a step on the orbit, with a zero in the middle, and that it falls."""
    setup = _stepping(setup)
    lr = common.learning_rate(setup)
    found = squares(setup)
    claims: dict[str, object] = {}
    for name in ("SGD", "GD"):
        where = places(setup, name)
        pushed = mean * found.mean + (noise * found.noise if name == "SGD" else 0.0)
        flow = orbit_flow(where, found.mu, pushed, found.theta, lr, gamma * _per_step(setup))
        pulls = _pulls(where, found, uncentred(setup, name), lr, _per_step(setup))
        claims[f"{name} step"] = equals(lr * np.asarray(flow), scale=lr * pulls)
        claims[f"{name} fall"] = at_most(np.zeros(len(AWAY) - 1), scale=lr * pulls[1:])
    return claims  # pyright: ignore[reportReturnType]


def _pulls(
    where: np.ndarray, found: SquaresOfStep, pushed: np.ndarray, lr: float, gamma: float
) -> np.ndarray:
    """All that pulls, whatever the sign."""
    stretch = np.exp(2 * np.outer(where, found.mu))
    return (lr * pushed / stretch + 4 * gamma * found.theta * stretch) @ np.abs(found.mu)


def left_out(noise: float = 1.0, mean: float = 1.0, gamma: float = 1.0) -> Predict:
    """The drift with other weights of its terms."""
    return lambda setup: predict_steps(setup, noise, mean, gamma)


def measure_steps(runs: Mapping[str, xr.Dataset]) -> Measurements:
    """The mean of C after the step less C before it, over all batches."""
    seen: dict[str, Measured] = {}
    for name, run in runs.items():
        params = {n: run[f"params_{n}"].values for n in _layers(run)}
        C = _charge(params)
        drift = (C[..., 1] - C[..., 0]).mean(axis=0)
        size = sum(np.max(np.sum(p * p, axis=(-2, -1)), axis=(0, -1)) for p in params.values())
        rounding = ROUNDING * np.asarray(size)
        seen[f"{name} step"] = measured(drift, error=rounding)
        seen[f"{name} fall"] = measured(np.diff(drift), error=rounding[1:] + rounding[:-1])
    return seen


def _layers(run: xr.Dataset) -> tuple[str, ...]:
    return ("W1", "W2") if "params_W1" in run else ("u", "w")


def _charge(params: Mapping[str, np.ndarray]) -> np.ndarray:
    """‖in‖² − ‖out‖² of the first unit, or ‖θ‖² where all weights are scaled."""
    if "W1" in params:
        return charges(params)[..., 0]
    u, w = (np.sum(params[name] ** 2, axis=(-2, -1)) for name in "uw")
    return u + w


def any_gamma(key: int) -> Evidence:
    """The least |G| on a wide grid, over its two pulls: for γ < 0 there is no zero."""
    trace, size = generator(key, "equilibrium any gamma").uniform(0.5, 2.0, size=2)
    lams = np.linspace(-3, 3, 20_001)
    least = []
    for gamma in (-0.01, 0.01):
        flow = np.asarray(orbit_flow(lams, [1.0], [trace], [size], 0.05, gamma))
        pulls = 0.05 * trace * np.exp(-2 * lams) + 0.04 * size * np.exp(2 * lams)
        least.append(float(np.min(np.abs(flow) / pulls)))
    return Evidence(*least, tolerance=1e-3)  # the grid's zero is this near


def any_batch(key: int) -> Setup:
    """A factorisation or a normalised net, batches of one or two, with or without replacement."""
    law = LAWS[key % len(LAWS)]
    make = cases.scale if key % 2 else cases.pair
    return make(key, dynamics=Descent(cases.LR, law, weight_decay=cases.DECAY))


def flowing(key: int) -> Setup:
    """Gradient flow, which has no steps."""
    setup = any_batch(key)
    flow = Flow(rtol=1e-10, atol=1e-12, weight_decay=cases.DECAY)
    return setup.replace(
        dynamics=flow, until=Until(time=cases.LR), save_at=[0, cases.LR], record=cases.PARAMS
    )


THMD1 = Theorem(
    "equilibrium.thmD.1",
    r"A step of SGD with any batch, or of GD, changes a charge in the mean by $G_d = "
    r"-4\eta\gamma(1-\eta\gamma)C + \eta^2\mathrm{Tr}[\Sigma_dA]$ with the uncentred $\Sigma_d = "
    r"E[gg^\top]$. With $\gamma \ge 0$ it falls along the orbit and has exactly one zero if it "
    r"has both signs, none if it has one.",
    hypotheses=[
        constant_lr(),
        no_momentum(),
        kind("noise, if any, is that of minibatches", lambda s: _batches_or_none(s)),
        Hypothesis(f"there are at most {MOST} batches", count, MOST),
    ],
    predict=predict_steps,
    measure=measure_steps,
    tolerance=1e-9,
    instances=any_batch,
    controls=[
        Control("the covariance is centred", any_batch, left_out(mean=0.0), formula=True),
        Control("there are steps", flowing),
    ],
    terms={
        "the mean gradient": left_out(mean=0.0),
        "noise": left_out(noise=0.0),
        "decay": left_out(gamma=0.0),
    },
    runs=steps,
    narrow=True,
    nets=(TwoLayer, NormalisedA),
    needs=cases.PARAMS,
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Theorem D.1",
            r"a unique zero for any $\gamma \in R$, if $\mathrm{Tr}[\Sigma A] \ne 0$ or "
            r"$\theta^\top A\theta \ne 0$",
            r"$\gamma \ge 0$ and $G$ not identically 0; for $\gamma < 0$ and $A = I$ there is "
            r"no zero",
            "false",
            evidence=any_gamma,
            quote="Then, for any θand any γ∈R, 23(1)Gd(θλ)is a monotonically decreasing "
            "function of λ",
            note="γ = 0, ΣA = 0 and C ≠ 0 meet the printed premise, and G = 0 everywhere.",
        ),
    ),
    paper=PAPER,
    title="when there is exactly one equilibrium",
)


def _batches_or_none(setup: Setup) -> bool:
    return isinstance(getattr(setup.dynamics, "noise", None), Minibatch | None)


THEOREMS = (THMD1,)
