"""What minibatches change: the gap grows at every step, and it alone decides where SGD ends."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ... import init, observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Rank1
from ...noise import Minibatch
from ...problems import Regression
from ...theory import balanced_limit
from .. import _shared_hypotheses as common
from .._claims import equals
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis, kind
from .._shared_measurements import limit
from .._source import RANK1 as SOURCE
from .._theorem import Control, Theorem, Told
from . import _instances as cases
from ._invariants import SAVES, SHORT
from ._limits import depth_of, reaches_zero

BATCH = 2
SGD = Descent(0.01, Minibatch(BATCH))
LONG = Until(steps=200_000, gap=1e-24, check_every=500)


def gap_increments(problem, net, params, gradient, lr):
    """lr²ξ²[‖g‖² − (v1·g)²/s²] with the gradient ξg that v1 has."""
    g, v1 = gradient["v1"], params["v1"]
    square = jnp.sum(params["u"][0] ** 2)
    return lr**2 * (jnp.sum(g * g) - jnp.sum(v1 * g) ** 2 / square)


RECORD = {"gap": observe.gap, "grown": observe.running(gap_increments), "params": observe.params}


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


def grown(setup: Setup, runs: Any) -> dict[str, Any]:
    """The sum of what every step adds, the same for all pairs; pairs parallel and equally long."""
    total = runs["run"].data["grown"].values[:, None]
    pairs, size = len(setup.params["u"]), float(np.sum(np.square(setup.params["v1"])))
    aligned = np.ones((len(total), pairs))
    return {
        "gap": equals(np.repeat(total, pairs, axis=1), scale=size),
        "cosine": equals(aligned, scale=1.0),
        "lengths": equals(np.ones((len(total), 2 * pairs)), scale=1.0),
    }


def seen_gap(runs: Any) -> dict[str, Any]:
    """Gap, cosines of the pairs, and all lengths over the first, at every save."""
    data = runs["run"].data
    u, v = (np.asarray(data[f"params_{name}"].values) for name in ("u", "v"))
    sizes = [np.linalg.norm(x, axis=-1) for x in (u, v)]
    cosine = np.abs(np.sum(u * v, axis=-1)) / (sizes[0] * sizes[1])
    lengths = np.concatenate(sizes, axis=1) / sizes[0][:, :1]
    return {"gap": data["gap"].values, "cosine": cosine, "lengths": lengths}


def short(key: int, dynamics: Any = SGD, until: Until = SHORT, save_at: Any = SAVES) -> Setup:
    """SGD on a balanced net."""
    return cases.rank1(key, dynamics=dynamics, until=until, save_at=save_at, record=RECORD)


def short_unbalanced(key: int) -> Setup:
    """SGD on one whose pairs are not parallel."""
    return cases.unbalanced(key, SGD, until=SHORT, save_at=SAVES, record=RECORD)


def printed_balance(key: int) -> Evidence:
    """The gap after one step by hand, against 0 as printed and against the law."""
    setup = cases.rank1(key)
    problem: Any = setup.problem
    v1, u, v = (np.array(setup.params[n]) for n in ("v1", "u", "v"))
    omega = np.sum(u * v, axis=1)
    xi, lr = float(np.prod(omega)), 0.01
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
    minibatches(),
    grown,
    seen_gap,
    1e-12,
    short,
    [Control("init is balanced", short_unbalanced)],
    nets=(Rank1,),
    needs=RECORD,
    given=("gradients",),
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "App. D.2",
            "SGD keeps the balance",
            r"only pairs stay parallel and of one length; $\delta$ moves at every step",
            "numeric",
            printed_balance,
        ),
    ),
    source=SOURCE,
    title="the gap moves at every step",
)


def from_gap(setup: Setup, runs: Any) -> Told:
    """θ∞ from the gap that the run ended with."""
    problem: Any = setup.problem
    final = runs["run"].final
    gap = float(final["v1"] @ final["v1"] - final["u"][0] @ final["u"][0])
    found = balanced_limit(problem, common.start(setup), depth_of(setup), gap)
    return Told({"theta": found.theta}, residual=found.residual)


def long(key: int, dynamics: Any = SGD) -> Setup:
    """SGD to the end."""
    return cases.rank1(key, dynamics=dynamics, until=LONG, record=cases.PATH)


def at_rest() -> list[Hypothesis]:
    """SGD ends at an interpolator."""
    return [
        *minibatches(),
        kind("noise dies out at the minima", common.noise_vanishes),
        reaches_zero(),
    ]


END = Theorem(
    "rank1.sgd.end",
    r"Where SGD from a balanced start ends is decided by its gap alone: $\theta(\infty) = "
    r"X^+y+s^{N-1}w_0$ with $s^{2(N-1)}(s^2+\delta_\infty-\|w_0\|^2) = \|X^+y\|^2$; the larger the "
    r"gap, the nearer to the min-norm solution.",
    at_rest(),
    from_gap,
    lambda runs: {"theta": limit(runs["run"])},
    1e-8,
    long,
    [
        Control(
            "init is balanced",
            lambda key: cases.unbalanced(key, SGD, until=LONG, record=cases.PATH),
        )
    ],
    nets=(Rank1,),
    given=("gap",),
    problems=(Regression,),
    dynamics=(Descent,),
    source=SOURCE,
    title="the gap decides where SGD ends",
)


def both(setup: Setup) -> dict[str, Setup]:
    """SGD and GD."""
    lr = common.learning_rate(setup)
    return {"sgd": setup, "gd": setup.replace(dynamics=Descent(lr))}


def seen_start(key: int) -> Setup:
    """A start in the row space of the data."""
    problem: Any = cases.data(key)
    inside = problem.row_space @ (problem.row_space.T @ cases.direction(key))
    params = init.balanced(cases.RANK1, 0.7 * inside / np.linalg.norm(inside), key=key)
    return cases.setup(
        cases.RANK1, params, key, SGD, problem=problem, until=LONG, record=cases.PATH
    )


def unseen_share(setup: Setup) -> float:
    """How much of the start the data do not see; 0 where they see everything."""
    problem: Any = setup.problem
    start = problem.as_predictor(common.start(setup))
    outside = start - problem.row_space @ (problem.row_space.T @ start)
    return float(np.linalg.norm(outside) / max(1e-300, float(np.linalg.norm(start))))


def least_norm(setup: Setup) -> dict[str, Any]:
    """For both; in units of the start where it is zero."""
    problem: Any = setup.problem
    size = max(float(np.linalg.norm(x)) for x in (problem.min_norm, common.start(setup)))
    return dict.fromkeys(("sgd", "gd"), equals(problem.min_norm, scale=size))


SAME = Theorem(
    "rank1.sgd.same",
    r"Where the data see all of the start, as with $n \ge d$ of full rank, noise has nothing to "
    r"choose: SGD and GD both end at the min-norm solution.",
    [
        *at_rest(),
        kind("the step is constant", lambda s: np.isfinite(common.learning_rate(s))),
        Hypothesis("the data see the start", unseen_share, 1e-10),
    ],
    least_norm,
    lambda runs: {name: limit(runs[name]) for name in ("sgd", "gd")},
    1e-8,
    seen_start,
    [Control("the data see the start", long)],
    runs=both,
    nets=(Rank1,),
    problems=(Regression,),
    dynamics=(Descent,),
    source=SOURCE,
    title="no freedom, no effect of noise",
)

THEOREMS = (DELTA, END, SAME)
