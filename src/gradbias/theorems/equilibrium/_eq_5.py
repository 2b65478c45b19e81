"""Eq 5: noise moves a charge by the curvature of the charge, up or down with its sign."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from ...dynamics import Descent, Diffusion
from ...nets import NormalisedA, NormalisedB
from ...noise import Minibatch
from ...problems import Regression
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Measurements,
    Predict,
    Setup,
    Theorem,
    Until,
    at_least,
    at_most,
    common,
)
from . import _instances as cases
from ._drifts import paired
from ._facts import kappa, noise_of, sgd
from ._measurements import EXACT, draws
from ._paper import PAPER

MEMBERS = 4096
STEPS = np.arange(129)
PARTS = 8  # of a step: the stochastic differential equation's own
BATCHES = Minibatch(8, replace=True)  # of few the square of a gradient has a long tail


def growing(key: int, decay: float = 0.0) -> Setup:
    """SGD on a scale-invariant net."""
    return cases.scale(key, decay, dynamics=Descent(cases.LR, BATCHES, weight_decay=decay))


def both(setup: Setup) -> dict[str, Ensemble]:
    """A few steps with many draws, and as many of the stochastic differential equation's."""
    lr = common.learning_rate(setup)
    dt = lr / PARTS
    short = setup.replace(record=cases.PUSHED)
    fine = Diffusion(lr, noise_of(setup), dt)
    until = Until(time=float(dt * STEPS[-1]))
    return {
        "SGD": draws(short, MEMBERS, until=Until(steps=int(STEPS[-1])), save_at=STEPS),
        "SDE": draws(short, MEMBERS, dynamics=fine, until=until, save_at=dt * STEPS),
    }


def squares(run: xr.Dataset) -> np.ndarray:
    """‖θ‖², (members, saves)."""
    u, w = (np.sum(run[f"params_{name}"].values ** 2, axis=(-2, -1)) for name in "uw")
    return u + w


def predict_growth(
    setup: Setup, runs: Mapping[str, xr.Dataset], noise: float = 1.0, step: float = 1.0
) -> Claims:
    """C of A = I never falls and that of A = −I never rises; κTr Σ and the term of a step."""
    lr = common.learning_rate(setup)
    size = float(np.mean(squares(runs["SGD"])[:, 0]))
    claims: dict[str, object] = {}
    for name, dt in (("SGD", lr), ("SDE", lr / PARTS)):
        pushes = (runs[name][f"push_{part}"].values[:, :-1] for part in ("noise", "mean"))
        trace, mean = (p.mean(axis=0).sum() for p in pushes)
        claims[f"{name} drift"] = dt * (noise * kappa(setup) * trace + step * dt * mean)
        claims[f"{name} rise"] = at_least(np.zeros(len(STEPS) - 1), scale=size)
        claims[f"{name} fall"] = at_most(np.zeros(len(STEPS) - 1), scale=size)
    return claims  # pyright: ignore[reportReturnType]


def left_out(noise: float = 1.0, step: float = 1.0) -> Predict:
    """The growth with other weights of its terms."""
    return lambda setup, runs: predict_growth(setup, runs, noise, step)


def measure_growth(runs: Mapping[str, xr.Dataset]) -> Measurements:
    """The mean growth; the least change of ‖θ‖² of any member, and the largest of −‖θ‖²."""
    seen: dict[str, object] = {}
    for name, run in runs.items():
        path = squares(run)
        seen[f"{name} drift"] = paired(path)
        seen[f"{name} rise"] = np.diff(path, axis=1).min(axis=0)
        seen[f"{name} fall"] = np.diff(-path, axis=1).max(axis=0)
    return seen  # pyright: ignore[reportReturnType]


EQ5 = Theorem(
    "equilibrium.eq5",
    r"$\dot C = \frac{\kappa}{2}\mathrm{Tr}[\Sigma\nabla^2C]$, and SGD adds the term of a finite "
    r"step: where $\nabla^2C = 2A$ has no negative eigenvalue, as under scale invariance, $C$ "
    r"never falls, and where it has no positive one $C$ never rises, at no step and for no batch.",
    hypotheses=[*sgd(), common.no_decay()],
    predict=predict_growth,
    measure=measure_growth,
    tolerance={
        f"{name} {what}": EXACT if what == "drift" else 1e-12
        for name in ("SGD", "SDE")
        for what in ("drift", "rise", "fall")
    },
    instances=growing,
    controls=[
        Control("there is no weight decay", lambda key: growing(key, 20 * cases.DECAY)),
        Control("the Hessian of C is A", growing, left_out(noise=0.5), formula=True),
    ],
    terms={"noise": left_out(noise=0.0), "the term of a finite step": left_out(step=0.0)},
    runs=both,
    nets=(NormalisedA, NormalisedB),
    needs=cases.PUSHED,
    given=("path",),
    problems=(Regression,),
    dynamics=(Descent,),
    never_tight="With noise a charge of one sign changes in every step.",
    paper=PAPER,
    title="a charge of one sign moves one way",
    slow=True,
)

THEOREMS = (EQ5,)
