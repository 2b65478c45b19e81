"""What minibatches change: the gap grows at every step, and it alone decides where SGD ends."""

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ... import init, observe
from ...dynamics import Descent, Dynamics
from ...theory import balanced_limit
from ..prelude import (
    Claim,
    Claims,
    Control,
    Erratum,
    Evidence,
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
)
from . import _instances as cases
from ._facts import DIES_OUT, depth_of, measure_end, outside, reaches_zero
from ._invariants import SAVES, SHORT
from ._paper import RANK1_STEPS

BATCH = 2
LONG = Until(steps=200_000, gap=1e-24, check_every=500)


def gap_increments(problem, net, params, gradient, lr):
    """lr²ξ²[‖g‖² − (v1·g)²/s²] with the gradient ξg that v1 has."""
    g = gradient["v1"]
    v1 = params["v1"]
    square = jnp.sum(params["u"][0] ** 2)
    return lr**2 * (jnp.sum(g * g) - jnp.sum(v1 * g) ** 2 / square)


RECORD = {"gap": observe.gap, "grown": observe.running(gap_increments), "params": observe.params}
OF_GAPS = dataclasses.replace(RANK1_STEPS, needs=RECORD)


def several_layers() -> Hypothesis:
    """One layer has no gap."""
    return kind("there is more than one layer", lambda setup: depth_of(setup) > 1)


def minibatches() -> list[Hypothesis]:
    """GD or SGD on a balanced net, without extras."""
    return [
        common.one_output(),
        several_layers(),
        *common.plain(),
        kind("steps see the data only", common.sees_data_only),
        common.balanced(),
        kind("the start is not zero", lambda setup: bool(np.any(common.start(setup)))),
    ]


def predict_grown(setup: Setup, run: Run) -> dict[str, Claim]:
    """The sum of what every step adds, the same for all pairs; pairs parallel and equally long."""
    total = run.data["grown"].values[:, None]
    pairs = len(setup.params["u"])
    size = float(np.sum(np.square(setup.params["v1"])))
    aligned = np.ones((len(total), pairs))
    return {
        "gap": equals(np.repeat(total, pairs, axis=1), scale=size),
        "cosine": equals(aligned, scale=1.0),
        "lengths": equals(np.ones((len(total), 2 * pairs)), scale=1.0),
    }


def predict_balance(setup: Setup, run: Run) -> Claims:
    """As printed: the gap stays 0."""
    told = predict_grown(setup, run)
    return {**told, "gap": dataclasses.replace(told["gap"], value=0 * told["gap"].value)}


def measure_grown(run: Run) -> Measurements:
    """Gap, cosines of the pairs, and all lengths over the first, at every save."""
    data = run.data
    u, v = (np.asarray(data[f"params_{name}"].values) for name in ("u", "v"))
    sizes = [np.linalg.norm(x, axis=-1) for x in (u, v)]
    cosine = np.abs(np.sum(u * v, axis=-1)) / (sizes[0] * sizes[1])
    lengths = np.concatenate(sizes, axis=1) / sizes[0][:, :1]
    return {"gap": data["gap"].values, "cosine": cosine, "lengths": lengths}


def short(
    key: int, dynamics: Dynamics | None = None, until: Until = SHORT, save_at: ArrayLike = SAVES
) -> Setup:
    """SGD on a balanced net."""
    dynamics = cases.sgd(key) if dynamics is None else dynamics
    return cases.rank1(key, dynamics=dynamics, until=until, save_at=save_at, record=RECORD)


def short_unbalanced(key: int) -> Setup:
    """SGD on one whose pairs are not parallel."""
    return cases.unbalanced(key, cases.sgd(key), until=SHORT, save_at=SAVES, record=RECORD)


def printed_balance(key: int) -> Evidence:
    """The gap after one step by hand, against 0 as printed and against the law."""
    setup = cases.rank1(key)
    problem = common.regression(setup)
    v1, u, v = (np.array(setup.params[n]) for n in ("v1", "u", "v"))
    omega = np.sum(u * v, axis=1)
    xi = float(np.prod(omega))
    lr = 0.01
    g = np.ravel(problem.gradient(xi * v1))
    new_v1 = v1 - lr * xi * g
    new_u = u - lr * (xi / omega * (v1 @ g))[:, None] * v
    before = float(v1 @ v1 - u[0] @ u[0])
    after = float(new_v1 @ new_v1 - new_u[0] @ new_u[0])
    law = lr**2 * xi**2 * float(g @ g - (v1 @ g) ** 2 / (u[0] @ u[0]))
    return Evidence(abs(after - before) / law, abs(after - before - law) / law)


DELTA = Theorem(
    "rank1.sgd.delta",
    r"On a balanced rank-1 net every step of GD or SGD, with any batch, keeps pairs parallel and "
    r"of one length $s$, and adds exactly $\Delta\delta = \eta^2\xi^2[\|g\|^2-(v_1\cdot "
    r"g)^2/s^2]$ to the gap $\delta = \|v_1\|^2-s^2$, $g$ the batch's gradient in $\theta$.",
    hypotheses=minibatches(),
    predict=predict_grown,
    measure=measure_grown,
    tolerance=1e-12,
    instances=short,
    controls=[Control("init is balanced", short_unbalanced)],
    given=("gradients",),
    errata=(
        Erratum(
            "App. D.2",
            "the dynamics of SGD maintains the balanced property",
            r"only pairs stay parallel and of one length; $\delta$ moves at every step",
            "false",
            evidence=printed_balance,
            quote="the dynamics of SGD will also maintain the balanced property",
            predict=predict_balance,
        ),
    ),
    paper=OF_GAPS,
    title="the gap moves at every step",
    own=True,
)


def predict_from_gap(setup: Setup, run: Run) -> Told:
    """θ∞ from the gap that the run ended with."""
    problem = common.regression(setup)
    final = run.final
    gap = float(final["v1"] @ final["v1"] - final["u"][0] @ final["u"][0])
    exact = balanced_limit(problem, common.start(setup), depth_of(setup), gap)
    return Told({"theta": exact.theta}, residual=exact.residual)


def long(key: int, dynamics: Dynamics | None = None) -> Setup:
    """SGD to the end."""
    dynamics = cases.sgd(key) if dynamics is None else dynamics
    return cases.rank1(key, dynamics=dynamics, until=LONG, record=cases.PATH)


def at_rest() -> list[Hypothesis]:
    """SGD ends at an interpolator."""
    return [
        *minibatches(),
        DIES_OUT,
        reaches_zero(),
    ]


END = Theorem(
    "rank1.sgd.end",
    r"Where SGD from a balanced start ends is decided by its gap alone: $\theta(\infty) = "
    r"X^+y+s^{N-1}w_0$ with $s^{2(N-1)}(s^2+\delta_\infty-\|w_0\|^2) = \|X^+y\|^2$; the larger the "
    r"gap, the nearer to the min-norm solution.",
    hypotheses=at_rest(),
    predict=predict_from_gap,
    measure=measure_end,
    tolerance=1e-8,
    instances=long,
    controls=[
        Control(
            "init is balanced",
            lambda key: cases.unbalanced(key, cases.sgd(key), until=LONG, record=cases.PATH),
        )
    ],
    given=("gap",),
    paper=RANK1_STEPS,
    title="the gap decides where SGD ends",
    own=True,
)


def both(setup: Setup) -> dict[str, Setup]:
    """SGD and GD."""
    lr = common.learning_rate(setup)
    return {"sgd": setup, "gd": setup.replace(dynamics=Descent(lr))}


def seen_start(key: int) -> Setup:
    """A start in the row space of the data."""
    problem = cases.data(key)
    inside = problem.row_space @ (problem.row_space.T @ cases.direction(key))
    params = init.balanced(cases.rank1_net(key), 0.7 * inside / np.linalg.norm(inside), key=key)
    return cases.setup(
        cases.rank1_net(key),
        params,
        key,
        cases.sgd(key),
        problem=problem,
        until=LONG,
        record=cases.PATH,
    )


def unseen_share(setup: Setup) -> float:
    """How much of the start the data do not see; 0 where they see everything."""
    problem = common.regression(setup)
    start = problem.as_predictor(common.start(setup))
    return float(
        np.linalg.norm(outside(problem, start)) / max(1e-300, float(np.linalg.norm(start)))
    )


def predict_both_ends(setup: Setup) -> Claims:
    """The solution of least norm for both; in units of the start where it is zero."""
    problem = common.regression(setup)
    size = max(float(np.linalg.norm(x)) for x in (problem.min_norm, common.start(setup)))
    return dict.fromkeys(("sgd", "gd"), equals(problem.min_norm, scale=size))


def measure_both_ends(runs: Mapping[str, Run]) -> Measurements:
    """Where each of them ends."""
    return {name: limit(runs[name]) for name in ("sgd", "gd")}


SAME = Theorem(
    "rank1.sgd.same",
    r"Where the data see all of the start, as with $n \ge d$ of full rank, noise has nothing to "
    r"choose: SGD and GD both end at the min-norm solution.",
    hypotheses=[
        *at_rest(),
        kind("the step is constant", lambda s: np.isfinite(common.learning_rate(s))),
        Hypothesis("the data see the start", unseen_share, 1e-10),
    ],
    predict=predict_both_ends,
    measure=measure_both_ends,
    tolerance=1e-8,
    instances=seen_start,
    controls=[Control("the data see the start", long)],
    runs=both,
    paper=RANK1_STEPS,
    title="no freedom, no effect of noise",
)

THEOREMS = (DELTA, END, SAME)
