"""Footnote 2 and App. D: steps and times, small weights and factors in front of the net."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...dynamics import Descent
from ...problems import Regression
from ...theory.imbalance import flow_time, ntk_rescaling, split
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    common,
    equals,
    kind,
    setup_of,
)
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    BOTH,
    PLAIN,
    STEP,
    on_the_way,
    problem_of,
    reached,
    relative_step,
    small_step,
    start,
)
from ._paper import OF_DATA

ALPHA = 0.5
LAST = 6000


def _until(setup: Setup, factor: float) -> Until:
    """The same end in a time that runs `factor` times as fast; losses are the same."""
    old = setup.until
    time = None if old.time is None else old.time * factor
    return Until(old.steps, time, old.gap, old.check_every)


def both_scales(setup: Setup) -> dict[str, Setup]:
    """The net, and the one with weights of order one and a factor in front of it."""
    scaled = ntk_rescaling(setup.params, ALPHA)
    problem = common.regression(setup)
    changes: dict[str, Any] = {
        "problem": Regression(scaled.output * problem.X, problem.Y, problem.weight),
        "params": scaled.params,
        "until": _until(setup, scaled.time),
    }
    if common.is_descent(setup):
        changes["dynamics"] = Descent(scaled.time * common.learning_rate(setup))
    else:
        changes["save_at"] = scaled.time * np.asarray(setup.save_at)
    return {"run": setup, "scaled": setup.replace(**changes)}


def predict_difference(setup: Setup, runs: Mapping[str, Run]) -> Claims:
    shape = runs["run"].data["theta"].values[reached(runs["run"])].shape
    return {"theta": equals(np.zeros(shape), scale=on_the_way(setup))}


def measure_scaled_difference(runs: Mapping[str, Run]) -> Measurements:
    run = runs["run"]
    other = runs["scaled"]
    output = ntk_rescaling(setup_of(run).params, ALPHA).output
    difference = run.data["theta"].values - output * other.data["theta"].values
    return {"theta": difference[reached(run)]}


APP_D = Theorem(
    "imbalance.appD",
    r"Gradient flow on $L(U, V)$ at time $t$ is gradient flow on $L' = \frac{1}{2}\|Y - "
    r"h^{-2\alpha}XU'V'^T\|^2$ from $U' = h^\alpha U$, $V' = h^\alpha V$ at time "
    r"$h^{2\alpha}t$; a step $\eta$ of descent is a step $h^{2\alpha}\eta$.",
    hypotheses=[
        *PLAIN,
        kind("the step is constant", lambda s: np.isfinite(common.learning_rate(s))),
    ],
    predict=predict_difference,
    measure=measure_scaled_difference,
    tolerance=1e-9,
    instances=cases.setup,
    controls=[Control("there is no weight decay", cases.decaying)],
    runs=both_scales,
    given=("number of saves",),
    dynamics=BOTH,
    errata=[
        Erratum(
            "Eq (28), (29), the middle",
            r"$-\partial L/\partial U = -X^T(Y-XUV^T)V$",
            r"$-\partial L/\partial U = X^T(Y-XUV^T)V$",
            "misprint",
            evidence=evidence.gradient_sign,
            quote=r"-\frac{1}{h^{\alpha}}\frac{\partial}{\partial U}\mathcal{L}(V,U) = "
            r"-\frac{1}{h^{\alpha}}X^{T}(Y - XUV^{T})V",
            note="(5b) has it right.",
        ),
        Erratum(
            "App. D, first display, last line, and Section 4.2",
            r"$L' = \|Y-\ldots\|^2$; see Section 4.2",
            r"$L' = \frac{1}{2}\|Y-\ldots\|^2$, as in the lines before it; Section 3.2",
            "misprint",
            quote=r"&:= \sum_{i=1}^n \left\| y^{(i)} - \frac{\sqrt{m}}{h^{2\alpha - "
            r"\frac{1}{2}}} \tilde{f}(x; \tilde{V}, \tilde{U}) \right\|_2^2",
        ),
    ],
    title="small weights, or a factor in front",
    paper=OF_DATA,
)


def mean_descent(key: int, lr: float = 5e-4, last: int = LAST) -> Setup:
    """Descent on the mean loss, as in the experiments."""
    at = np.round(np.linspace(0, last, cases.SAVES))
    return cases.setup(
        key,
        dynamics=Descent(lr),
        problem=cases.regression(key, weight=1 / cases.sizes(key).n),
        until=Until(steps=last),
        save_at=at,
    )


def with_flow(setup: Setup) -> dict[str, Setup]:
    """Descent on the problem's loss, and gradient flow on ½‖Y − XΘ‖² until the same times."""
    problem = common.regression(setup)
    at = flow_time(problem, common.learning_rate(setup), setup.save_at).half_sum
    moved = {
        "problem": Regression.half_sum(problem.X, problem.Y),
        "dynamics": cases.tight_flow(),
        "until": Until(time=float(at[-1])),
        "save_at": at,
    }
    return {"run": setup, "flow": setup.replace(**moved)}


def _behind(setup: Setup) -> float:
    """How far steps stay behind the flow, relative.

    That is lr · λ of the kernel; a start so small that the predictor has to grow first loses as
    much with every e-folding of that growth, at rates up to those of the end.
    """
    parts = split(problem_of(setup))
    theta = float(np.linalg.norm(problem_of(setup).min_norm, 2))
    size = float(np.linalg.norm(start(setup).Z, 2)) ** 2
    growth = math.log(2 * theta / size) if 0 < size < 2 * theta else 0.0
    at_end = common.learning_rate(setup) * parts.speed * parts.S[0] * (size + 2 * theta)
    return max(relative_step(setup), float(at_end) * growth)


def measure_flow_difference(runs: Mapping[str, Run]) -> Measurements:
    difference = runs["run"].data["theta"].values - runs["flow"].data["theta"].values
    return {"theta": difference[reached(runs["run"])]}


def large_step(key: int) -> Setup:
    """The first steps of descent that lags behind the flow."""
    slow = mean_descent(key)
    return mean_descent(key, 0.8 * common.learning_rate(slow) / _behind(slow), cases.SAVES - 1)


TIME = Theorem(
    "imbalance.time",
    r"Step $k$ of gradient descent with $\eta$ on $\frac{1}{n}\|Y-XUV^T\|^2$ is gradient flow on "
    r"$\frac{1}{2}\|Y-XUV^T\|^2$ at the time $t = 2\eta k/n$, up to $O(\eta)$; for a weight $w$ "
    r"in place of $1/n$, $t = 2w\eta k$.",
    hypotheses=[*PLAIN, STEP, small_step(_behind)],
    predict=predict_difference,
    measure=measure_flow_difference,
    tolerance=1e-9,
    instances=mean_descent,
    controls=[Control("the step is small", large_step)],
    runs=with_flow,
    given=("number of saves",),
    dynamics=(Descent,),
    errata=[
        Erratum(
            "footnote 2, to App. A.2",
            "the step size is scaled by $n/2$",
            r"$k$ steps on $\frac{1}{n}\|\cdot\|^2$ are the time $t = 2\eta k/n$ on "
            r"$\frac{1}{2}\|\cdot\|^2$",
            "convention",
            quote="the step size is scaled by n/2 to account for that the gradient descent "
            "uses rescaled loss function",
        )
    ],
    title="steps and times",
    paper=OF_DATA,
)

THEOREMS = (TIME, APP_D)
