"""The gap that bounds how far a point of the ball is from the best one."""

import numpy as np

from ...dynamics import Steepest
from ...geometry import L2, GeometryLike, Linf
from ...nets import Deep
from ...problems import Regression
from ...theory.optimisers import decay_ball, frank_wolfe_gap
from ..prelude import (
    Claim,
    Claims,
    Control,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_most,
    common,
    kind,
    setup_of,
)
from . import _instances as cases
from ._papers import ADAMW

LOOKS = 12


def early(setup: Setup) -> dict[str, Setup]:
    """Looks until nine parts in ten of the way are behind."""
    rate = float(cases.rates(setup, 1)[0]) * float(setup.dynamics.weight_decay)
    steps = int(np.ceil(2.3 / rate))
    saves = np.unique(np.linspace(0, steps, LOOKS).astype(int))
    return {"run": setup.replace(until=Until(steps=steps), save_at=saves)}


def points(run: Run) -> list[np.ndarray]:
    """The predictor at every look."""
    return [next(iter(state.values())) for state in cases.path(run)]


def predict(setup: Setup, run: Run) -> Claims:
    """Gap over λ."""
    return predict_in(setup, run, cases.steepest(setup).geometry)


def predict_in(setup: Setup, run: Run, geometry: GeometryLike) -> Claims:
    """The same with the dual norm of a geometry."""
    problem = common.regression(setup)
    decay = float(setup.dynamics.weight_decay)
    gaps = [frank_wolfe_gap(problem, x, decay, geometry) for x in points(run)]
    return {"excess": at_most(np.array(gaps) / decay)}


def in_l2(setup: Setup, run: Run) -> Claims:
    """With the dual norm of another geometry."""
    return predict_in(setup, run, L2)


def halved(setup: Setup, run: Run) -> Claims:
    """Half of the gap, which a quadratic loss has near its own minimum."""
    bound = predict(setup, run)["excess"]
    assert isinstance(bound, Claim)
    return {"excess": at_most(bound.value / 2)}


def measure(run: Run) -> Measurements:
    """The loss above that of the best point of the ball, by finding it."""
    setup = setup_of(run)
    problem = common.regression(setup)
    best = decay_ball(problem, float(setup.dynamics.weight_decay), cases.steepest(setup).geometry)
    least = float(problem.loss(best.theta))
    return {"excess": np.array([float(problem.loss(x)) - least for x in points(run)])}


def instance(key: int) -> Setup:
    """A box so small that the loss is nearly linear in it: then the bound is nearly tight."""
    rng = cases.draws(key, "gap")
    problem = Regression.half_mean(rng.standard_normal((30, 10)), rng.standard_normal((30, 1)))
    decay = 2000 / float(np.abs(problem.min_norm).min())
    moves = Steepest(0.02 / decay, Linf, weight_decay=decay)
    return cases.one_layer(key, moves, problem, 100)


THEOREMS = (
    Theorem(
        "optimiser.frank_wolfe_gap",
        r"Sign descent with decoupled decay is nowhere further above the least loss in its ball "
        r"$\|\theta\|_\infty \le 1/\lambda$ than $\frac{1}{\lambda}\|\nabla L\|_1 + "
        r"\langle\theta,\nabla L\rangle$, the Frank–Wolfe gap over $\lambda$.",
        hypotheses=[
            kind("there is one layer", lambda s: len(s.params) == 1),
            kind("steps are signs", lambda s: isinstance(cases.steepest(s).geometry, Linf)),
            kind("there is decay", lambda s: float(s.dynamics.weight_decay) > 0),
            kind("decay is decoupled", lambda s: cases.steepest(s).decoupled),
            kind("steps are of unit size", lambda s: cases.steepest(s).normalised),
            kind("the step is constant", lambda s: not callable(cases.steepest(s).lr)),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-9,
        instances=instance,
        controls=[
            Control("the gap of another norm", instance, in_l2, formula=True),
            Control("as if the loss were strongly convex", instance, halved, formula=True),
        ],
        runs=early,
        given=("path",),
        nets=(Deep,),
        problems=(Regression,),
        dynamics=(Steepest,),
        needs=cases.PATH,
        paper=ADAMW,
        title="the Frank–Wolfe gap of decay",
    ),
)
