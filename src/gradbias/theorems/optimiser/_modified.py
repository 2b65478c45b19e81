"""The flow that heavy ball follows to second order, from a start that is shifted."""

from collections.abc import Mapping

import numpy as np

from ...dynamics import Descent, Flow
from ...nets import Deep, Diagonal, Rank1, TwoLayer
from ...problems import Population, Regression
from ...theory import singular_basis
from ...theory.optimisers import modified_flow, momentum_factor
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    common,
    kind,
)
from . import _instances as cases
from ._angular_momentum import heavy_ball
from ._papers import HEAVY_BALL

NEARLY = Flow(rtol=1e-12, atol=1e-14)


def both(setup: Setup) -> dict[str, Setup]:
    """The steps, and gradient flow for as long."""
    steps = int(setup.limit or 0)
    time = float(cases.rates(setup, 1)[0]) / (1 - float(cases.descent(setup).momentum)) * steps
    flow = setup.replace(dynamics=NEARLY, until=Until(time=time), save_at=[time])
    return {"steps": setup.replace(save_at=[steps]), "flow": flow}


def predict(setup: Setup, naive: bool = False) -> Claims:
    """By how much the modified flow ends elsewhere than the flow of L."""
    lr = float(cases.rates(setup, 1)[0])
    beta = float(cases.descent(setup).momentum)
    steps = int(setup.limit or 0)
    problem = setup.problem
    params = setup.params
    assert isinstance(problem, (Regression, Population))
    plain = modified_flow(problem, params, lr / (1 - beta) * 1e-9, round(1e9 * steps))
    if naive:
        time = lr / (1 - beta) * steps
        count = max(1, round(time / (lr / (1 - beta) * momentum_factor(beta))))
        moved = modified_flow(problem, params, time / count, count)
    else:
        moved = modified_flow(problem, params, lr, steps, beta)
    return {"shift": np.concatenate([np.ravel(moved[n] - plain[n]) for n in sorted(params)])}


def measure(runs: Mapping[str, Run]) -> Measurements:
    steps = runs["steps"].final
    flow = runs["flow"].final
    return {"shift": np.concatenate([np.ravel(steps[n] - flow[n]) for n in sorted(steps)])}


def step_size(setup: Setup) -> float:
    """What is left over what is told: of order η, with lags counted in steps."""
    beta = float(cases.descent(setup).momentum)
    lr = float(cases.rates(setup, 1)[0]) if not callable(cases.descent(setup).lr) else np.inf
    problem = singular_basis(setup.problem)
    curved = float(problem.curvature[0]) if len(problem.curvature) else 0.0
    size = max(float(np.linalg.norm(p, 2)) for p in map(np.atleast_2d, setup.params.values()))
    fit = float(np.linalg.norm(common.quadratic(setup).min_norm))
    return 2 * lr * curved * max(size**2, fit) / (1 - beta) ** 2


def instance(key: int, nesterov: bool = False) -> Setup:
    """Up to time 1 of the flow."""
    moves = Descent(1e-4, None, 0.5, nesterov=nesterov)
    return cases.two_layers(key, moves, 5000)


THEOREMS = (
    Theorem(
        "optimiser.modified_loss",
        r"Heavy ball from rest ends where the flow of $L+\frac{\eta_e(1+\beta)}{4(1-\beta)}"
        r"\|\nabla L\|^2$ from $\theta_0+\eta_e\frac{\beta}{1-\beta}\nabla L(\theta_0)$ does, up "
        r"to $\eta^2$, with $\eta_e = \eta/(1-\beta)$.",
        hypotheses=[
            *common.plain()[:1],
            heavy_ball(),
            kind("no noise", lambda s: cases.descent(s).noise is None),
            kind("it starts from rest", lambda s: cases.descent(s).velocity is None),
            kind("steps are counted", lambda s: s.limit is not None),
            Hypothesis("the step is small", step_size, 0.05, True, "O(η)"),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-4,
        instances=instance,
        controls=[
            Control("momentum is heavy ball", lambda key: instance(key, nesterov=True)),
            Control(
                "from the start itself", instance, lambda s: predict(s, naive=True), formula=True
            ),
        ],
        runs=both,
        nets=(TwoLayer, Deep, Rank1, Diagonal),
        problems=(Regression, Population),
        dynamics=(Descent,),
        paper=HEAVY_BALL,
        title="momentum as a loss",
        own=True,
    ),
)
