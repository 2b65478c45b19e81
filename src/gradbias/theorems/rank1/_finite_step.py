"""Gradient descent with a finite step: it moves the balance, and with it the end."""

from collections.abc import Mapping

import numpy as np

from ...dynamics import Descent
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
    common,
    equals,
    kind,
    limit,
    setup_of,
)
from . import _instances as cases
from ._extrapolated import extrapolated
from ._facts import (
    QUIET,
    USEFUL,
    depth_of,
    end,
    moved_end,
    outside,
    reaches_zero,
    step_error,
)
from ._paper import RANK1_STEPS

HALVINGS = (1, 2, 4, 8)  # of the step: what they show is extrapolated to a step of zero


def first_order(setup: Setup) -> tuple[float, np.ndarray]:
    """What a step changes, per unit of it: δ∞, and θ(∞) by the root's derivative in δ."""
    flow = end(setup)
    N = depth_of(setup)
    problem = common.regression(setup)
    gap = moved_end(setup).gap / common.learning_rate(setup)
    start = np.ravel(common.start(setup))
    w0 = outside(problem, start) * float(np.linalg.norm(start)) ** (1 / N - 1)
    # s^{2(N−1)}(s² + δ − c²) stays ‖X⁺y‖²
    free = flow.s**2 - float(w0 @ w0)
    slope = -flow.s / (2 * (N - 1) * free + 2 * flow.s**2)
    return gap, gap * slope * (N - 1) * flow.s ** (N - 2) * w0


def halved(setup: Setup) -> dict[str, Setup]:
    """The same with smaller steps too; all to the same end."""
    lr = common.learning_rate(setup)
    until = setup.until
    runs = {}
    for parts in HALVINGS:
        steps = None if until.steps is None else parts * until.steps
        last = Until(steps, until.time, until.gap, until.check_every)
        runs[f"lr/{parts}"] = setup.replace(dynamics=Descent(lr / parts), until=last)
    return runs


def predict_gap(setup: Setup) -> Told:
    """δ∞ and the shift of the end, per unit of the step, as it goes to zero."""
    gap, shift = first_order(setup)
    return Told({"gap ÷ lr": gap, "shift ÷ lr": shift}, moved_end(setup).residual)


def measure_gap(runs: Mapping[str, Run]) -> Measurements:
    """The same at the end, from polynomials in the step."""
    ordered = [runs[f"lr/{parts}"] for parts in HALVINGS]
    steps = [common.learning_rate(setup_of(run)) for run in ordered]
    rates = [observed_gap(run.final) / lr for run, lr in zip(ordered, steps, strict=True)]
    ends = [limit(run) for run in ordered]
    own = max(float(np.max(one.error)) for one in ends)
    thetas = [np.ravel(one.value) for one in ends]
    left = max(rates) * own / float(np.linalg.norm(thetas[-1]))
    return {
        "gap ÷ lr": extrapolated(steps, rates, left),
        "shift ÷ lr": extrapolated(steps, thetas, own, order=1),
    }


def observed_gap(params: Mapping[str, np.ndarray]) -> float:
    """‖v1‖² − ‖u_1‖²."""
    return float(params["v1"] @ params["v1"] - params["u"][0] @ params["u"][0])


def predict_without_gap(setup: Setup) -> Claims:
    """As if descent kept the balance."""
    gap, shift = first_order(setup)
    none = equals(0 * shift, scale=float(np.linalg.norm(shift)))
    return {"gap ÷ lr": equals(0.0, scale=gap), "shift ÷ lr": none}


GD_GAP = Theorem(
    "rank1.gd_gap",
    r"Gradient descent from a balanced start does not keep the balance: $\delta = \|v_1\|^2 - s^2$ "
    r"grows by $\int \eta\,\xi^2[\|g\|^2 - (v_1\cdot g)^2/s^2]\,dt$, and it ends where "
    r"$s^{2(N-1)}(s^2+\delta-c^2) = \|X^+y\|^2$ says: nearer to the min-norm solution than "
    r"gradient flow. Both to first order in $\eta$: $\delta(\infty)/\eta$ and "
    r"$d\theta(\infty)/d\eta$ as $\eta \to 0$.",
    hypotheses=[
        common.one_output(),
        *common.plain(),
        QUIET,
        common.balanced(),
        reaches_zero(),
        kind("there is more than one layer", lambda setup: depth_of(setup) > 1),
        Hypothesis("the step is small", step_error, USEFUL),
    ],
    predict=predict_gap,
    measure=measure_gap,
    tolerance=1e-5,
    instances=lambda key: cases.rank1(
        key, dynamics=Descent(0.002 * cases.slower(key)), until=Until(steps=300_000, gap=1e-22)
    ),
    controls=[
        Control("descent has no gap", lambda key: GD_GAP.instances(key), predict_without_gap, True)
    ],
    runs=halved,
    paper=RANK1_STEPS,
    title="what a finite step does to the balance",
    own=True,
)

THEOREMS = (GD_GAP,)
