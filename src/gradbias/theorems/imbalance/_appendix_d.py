"""Footnote 2 and App. D: steps and times, small weights and factors in front of the net."""

import math
from typing import Any

import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Flow
from ...problems import Regression
from ...theory.imbalance import flow_time, ntk_rescaling, split
from .. import _shared_hypotheses as common
from .._claims import equals
from .._erratum import Erratum
from .._hypothesis import kind
from .._theorem import Control, Theorem
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    ABOUT,
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

ALPHA = 0.5
LAST = 3000


def _until(setup: Setup, factor: float) -> Until:
    """The same end in a time that runs `factor` times as fast; losses are the same."""
    old = setup.until
    time = None if old.time is None else old.time * factor
    return Until(old.steps, time, old.gap, old.check_every)


def both_scales(setup: Setup) -> dict[str, Setup]:
    """The net, and the one with weights of order one and a factor in front of it."""
    scaled, problem = ntk_rescaling(setup.params, ALPHA), problem_of(setup)
    changes: dict[str, Any] = {
        "problem": Regression(scaled.output * problem.X, problem.Y, problem.weight),
        "params": scaled.params,
        "until": _until(setup, scaled.time),
    }
    moves: Any = setup.dynamics
    if isinstance(moves, Descent):
        changes["dynamics"] = Descent(scaled.time * float(moves.lr))
    else:
        changes["save_at"] = scaled.time * np.asarray(setup.save_at)
    return {"run": setup, "scaled": setup.replace(**changes)}


def _same(setup: Setup, runs: Any) -> dict[str, Any]:
    shape = runs["run"].data["theta"].values[reached(runs["run"])].shape
    return {"theta": equals(np.zeros(shape), scale=on_the_way(setup))}


def _scaled_apart(runs: Any) -> dict[str, Any]:
    run, other = runs["run"], runs["scaled"]
    output = ntk_rescaling(run.setup.params, ALPHA).output
    apart = run.data["theta"].values - output * other.data["theta"].values
    return {"theta": apart[reached(run)]}


APP_D = Theorem(
    "imbalance.appD",
    r"Gradient flow on $L(U, V)$ at time $t$ is gradient flow on $L' = \frac{1}{2}\|Y - "
    r"h^{-2\alpha}XU'V'^T\|^2$ from $U' = h^\alpha U$, $V' = h^\alpha V$ at time "
    r"$h^{2\alpha}t$; a step $\eta$ of descent is a step $h^{2\alpha}\eta$.",
    [*PLAIN, kind("the step is constant", lambda s: np.isfinite(common.learning_rate(s)))],
    _same,
    _scaled_apart,
    1e-9,
    cases.setup,
    [Control("there is no weight decay", cases.decaying)],
    runs=both_scales,
    given=("number of saves",),
    dynamics=BOTH,
    errata=[
        Erratum(
            "Eq (28), (29), the middle",
            r"$-\partial L/\partial U = -X^T(Y-XUV^T)V$",
            r"$-\partial L/\partial U = X^T(Y-XUV^T)V$",
            "numeric",
            evidence.gradient_sign,
        ),
        Erratum(
            "App. D, last display",
            r"$L' = \|Y-\ldots\|^2$; see Section 4.2",
            r"$L' = \frac{1}{2}\|Y-\ldots\|^2$; see Section 3.2",
            "convention",
        ),
    ],
    title="small weights, or a factor in front",
    **{**ABOUT, "problems": (Regression,)},
)


def mean_descent(key: int, lr: float = 2e-3) -> Setup:
    """Descent on the mean loss, as in the experiments."""
    at = np.round(np.linspace(0, LAST, cases.SAVES))
    return cases.setup(
        key,
        dynamics=Descent(lr),
        problem=cases.regression(key, weight=1 / cases.N),
        until=Until(steps=LAST),
        save_at=at,
    )


def with_flow(setup: Setup) -> dict[str, Setup]:
    """Descent on the problem's loss, and gradient flow on ½‖Y − XΘ‖² until the same times."""
    problem = problem_of(setup)
    at = flow_time(problem, common.learning_rate(setup), setup.save_at).half_sum
    moved = {
        "problem": Regression.half_sum(problem.X, problem.Y),
        "dynamics": Flow(**cases.TIGHT),
        "until": Until(time=float(at[-1])),
        "save_at": at,
    }
    return {"run": setup, "flow": setup.replace(**moved)}


def _behind(setup: Setup) -> float:
    """How far steps stay behind the flow, relative.

    That is lr · λ of the kernel; a start so small that the predictor has to grow first loses as
    much with every e-folding of that growth, at rates up to those of the end.
    """
    parts, theta = split(problem_of(setup)), float(np.linalg.norm(problem_of(setup).min_norm, 2))
    size = float(np.linalg.norm(start(setup).Z, 2)) ** 2
    growth = math.log(2 * theta / size) if 0 < size < 2 * theta else 0.0
    at_end = common.learning_rate(setup) * parts.speed * parts.S[0] * (size + 2 * theta)
    return max(relative_step(setup), float(at_end) * growth)


def _flow_apart(runs: Any) -> dict[str, Any]:
    apart = runs["run"].data["theta"].values - runs["flow"].data["theta"].values
    return {"theta": apart[reached(runs["run"])]}


TIME = Theorem(
    "imbalance.time",
    r"Step $k$ of gradient descent with $\eta$ on $\frac{1}{n}\|Y-XUV^T\|^2$ is gradient flow on "
    r"$\frac{1}{2}\|Y-XUV^T\|^2$ at the time $t = 2\eta k/n$, up to $O(\eta)$; for a weight $w$ "
    r"in place of $1/n$, $t = 2w\eta k$.",
    [*PLAIN, STEP, small_step(_behind)],
    _same,
    _flow_apart,
    1e-9,
    mean_descent,
    [Control("the step is small", lambda key: mean_descent(key, 0.05))],
    runs=with_flow,
    given=("number of saves",),
    dynamics=(Descent,),
    errata=[
        Erratum(
            "footnote 2",
            r"the step is scaled by $n/2$: $t = \eta kn/2$",
            r"divided by it: $t = 2\eta k/n$",
            "numeric",
            evidence.clock,
        )
    ],
    title="steps and times",
    **{**ABOUT, "problems": (Regression,)},
)

THEOREMS = (TIME, APP_D)
