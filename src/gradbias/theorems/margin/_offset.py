"""Soudry's offset law with all its constants: flow, descent and heavy ball."""

import numpy as np

from ...dynamics import Descent, Flow, Optimiser
from ...nets import Deep
from ...observe import dual_weights, log_loss
from ...problems import Classification
from ...theory import margin
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    Until,
    kind,
    measured,
    setup_of,
)
from . import _instances as cases
from ._papers import SOUDRY

LOG_TIME = 200.0
STEPS = 300_000
LOSSES = ("exponential", "logistic", "cross_entropy")


def late(setup: Setup) -> float:
    """The logarithm of t at the end."""
    if isinstance(setup.dynamics, Optimiser):
        return float(np.log(clock(setup)))
    return float(cases.log_times(setup)[-1])


def descent(setup: Setup) -> Descent:
    """The steps."""
    assert isinstance(setup.dynamics, Descent)
    return setup.dynamics


def clock(setup: Setup) -> float:
    """Σlr/(1 − β) up to the end."""
    moves = descent(setup)
    total = float(moves.time(np.arange(int(np.asarray(setup.save_at)[-1]) + 1))[-1])
    return total / (1 - float(moves.momentum))


def rest(setup: Setup) -> float:
    """t^{−ν} times how far support vectors' margins were from their place at the start.

    A sample that is ahead of its place waits until log t has come there. Steps are not a flow:
    log t/t more.
    """
    law = cases.law(setup)
    problem = cases.classes(setup)
    began = np.concatenate([np.ravel(p) for p in setup.params.values()])
    away = problem.constraints @ law.basis @ law.basis.T @ (began - np.ravel(law.w_tilde))
    on = (law.alpha if problem.vector else law.alpha[problem.Y == 0]) > 0
    since = late(setup) - max(float(away[on].max()), 0.0)
    found = (1 + np.abs(away[on]).max()) * np.exp(-law.exponent * since)
    if isinstance(setup.dynamics, Optimiser):
        found += late(setup) * np.exp(-late(setup))
    return float(found)


def predict(setup: Setup) -> Told:
    """t·e^{−m}/n, t·L, and the dual weights."""
    law = cases.law(setup)
    limits = margin.rate_constants(cases.classes(setup))
    told = {"multipliers": law.alpha, "t·L": limits.loss, "weights": limits.weights}
    return Told(told, law.residual)


def shown(run: Run) -> dict[str, np.ndarray]:
    """The same of every save."""
    setup = setup_of(run)
    problem = cases.classes(setup)
    if isinstance(setup.dynamics, Optimiser):
        saves = np.asarray(setup.save_at, float)
        times = late(setup) + np.log(saves / saves[-1])
    else:
        times = cases.log_times(setup)
    each = np.exp(times[:, None] - cases.margins(run)) / problem.n
    if not problem.vector:
        rows = np.zeros((len(times), problem.n, problem.k))
        rows[:, problem.Y == 0] = each
        each = rows
    return {
        "multipliers": each,
        "t·L": np.exp(times + run.data["log_loss"].values),
        "weights": run.data["dual_weights"].values,
    }


def measure(run: Run) -> Measurements:
    """At the end."""
    return {name: values[-1] for name, values in shown(run).items()}


def earlier(setup: Setup) -> dict[str, Setup]:
    """A save at a quarter of the time, too."""
    end = int(np.asarray(setup.save_at)[-1])
    return {"run": setup.replace(save_at=[end // 4, end])}


def measure_steps(run: Run) -> Measurements:
    """With what the last three quarters of the time have still changed as the error."""
    return {n: measured(x[-1], error=np.abs(x[-1] - x[0])) for n, x in shown(run).items()}


def lawful(problem: Classification, least: float) -> bool:
    """Does the rest vanish fast enough to be seen to?"""
    return margin.offset(problem).exponent >= least


def slower(setup: Setup, momentum: float) -> Claims:
    """As if momentum did not make time run faster."""
    claims = predict(setup).values
    return {"t·L": np.asarray(claims["t·L"]) * (1 - momentum) ** -1}


def instance(key: int) -> Setup:
    """Any of the three losses, from a random start; to t = e^200."""
    loss = LOSSES[key % 3]
    problem = cases.drawn(key, "offset", loss, lambda p: lawful(p, 0.15))
    return flow_of(problem, key)


def flow_of(problem: Classification, key: int) -> Setup:
    """The flow of a linear predictor."""
    return Setup(
        problem,
        cases.one_layer(problem),
        cases.start(problem, key, 1.0),
        cases.by_loss(),
        Until(log_time=LOG_TIME),
        NEEDS,
        [LOG_TIME],
        key=key,
    )


def degenerate(key: int) -> Setup:
    """A sample on the margin whose multiplier is zero, turned and stretched."""
    rng = cases.draws(key, "degenerate")
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    Z = np.array([[1.0, 0.0, 0.0], [1.0, rng.uniform(0.5, 2), 0.0]]) @ turn
    signs = np.array([1.0, -1.0])
    return flow_of(Classification(signs[:, None] * Z, signs, "exponential"), key)


def as_if(setup: Setup) -> Claims:
    """The dual weights of the margin problem, which they still tend to, but as 1/log t."""
    best = cases.classes(setup).max_margin()
    return {"weights": best.gamma**2 * best.alpha}


def steps_of(key: int, momentum: float | None = None) -> Setup:
    """Gradient descent, or every other time heavy ball."""
    problem = cases.drawn(key, "steps", LOSSES[key % 2], lambda p: lawful(p, 0.7), 15)
    start = cases.start(problem, key, 0.1)
    if momentum is None:
        momentum = 0.9 if key % 4 < 2 else 0.0
    Z = problem.constraints
    lr = 0.9 / (float(problem.loss(start["W1"])) * float(np.max(np.sum(Z * Z, axis=1))))
    lr *= 1 - momentum
    return Setup(
        problem,
        cases.one_layer(problem),
        start,
        Descent(lr, momentum=momentum),
        Until(steps=STEPS),
        NEEDS,
        [STEPS],
        key=key,
    )


def step_size(setup: Setup) -> float:
    """lr·L(0)·max‖z‖²/(1 − β): above 1 a burst of steps leads far ahead of log t."""
    moves = descent(setup)
    problem = cases.classes(setup)
    (start,) = setup.params.values()
    rates = np.diff(moves.time(np.arange(int(np.asarray(setup.save_at)[-1]) + 1)))
    longest = float(np.max(np.sum(problem.constraints**2, axis=1)))
    slowest = 1 - float(moves.momentum)
    return float(rates.max()) * float(problem.loss(start)) * longest / slowest


NEEDS = cases.THETA | {"dual_weights": dual_weights, "log_loss": log_loss}
ON_MARGIN = (
    r"$w(t) = \hat w\log t + \tilde w + O(t^{-\nu})$ on the span of the support vectors, from any "
    r"start: $t\,e^{-m_i}/n \to \alpha_i$, the multipliers of $\hat w$, $t\,L \to 1/\gamma^2$, and "
    r"the samples' shares of the gradient become the SVM's dual, $\gamma^2\alpha$"
)
THEOREMS = (
    Theorem(
        "margin.offset",
        rf"The $\ell_2$ flow of a linear classifier has {ON_MARGIN}.",
        hypotheses=[
            *cases.separated(),
            cases.is_linear(),
            cases.is_flow(),
            cases.not_degenerate(),
            Hypothesis("the run is long", rest, 0.05, True, "O(t^{−ν})"),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-7,
        instances=instance,
        controls=[Control("no sample is on the margin without weight", degenerate, as_if)],
        nets=(Deep,),
        problems=(Classification,),
        dynamics=(Flow,),
        needs=NEEDS,
        paper=SOUDRY,
        title="the offset from log t",
        own=True,
    ),
    Theorem(
        "margin.offset_steps",
        rf"Descent and heavy ball on a linear classifier have, with $t = \sum\eta/(1-\beta)$, "
        rf"{ON_MARGIN}.",
        hypotheses=[
            *cases.separated(),
            cases.is_linear(),
            cases.is_flow(),
            kind("momentum is heavy ball", lambda s: not descent(s).nesterov),
            kind("no noise", lambda s: descent(s).noise is None),
            Hypothesis("steps are small", step_size, 1.0),
            cases.not_degenerate(),
            Hypothesis("the run is long", rest, 0.05, True, "O(t^{−ν})"),
        ],
        predict=predict,
        measure=measure_steps,
        tolerance=1e-5,
        instances=steps_of,
        runs=earlier,
        controls=[
            Control(
                "t without momentum",
                lambda key: steps_of(key, momentum=0.9),
                lambda s: slower(s, 0.9),
                formula=True,
            ),
        ],
        nets=(Deep,),
        problems=(Classification,),
        dynamics=(Descent,),
        needs=NEEDS,
        paper=SOUDRY,
        title="the offset from log t, of steps",
        own=True,
    ),
)
