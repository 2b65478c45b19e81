"""Infinitely many layers: the limit, and how fast it is approached."""

import math
from collections.abc import Mapping

import numpy as np

from ... import init
from ...dynamics import Flow
from ...nets import Deep, Rank1
from ...theory import balanced_limit
from ...theory.rank1 import BalancedLimit
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
    fact,
    measured,
)
from . import _instances as cases
from ._extrapolated import extrapolated
from ._facts import end, outside, reaches_zero
from ._paper import PAPER
from ._thms_1_2 import measure_limit

LAYERS = (5, 7, 11, 17)  # L of the rank-1 nets that are compared: N = 2L − 1 full layers
SEEN = (0.5, 0.8)  # 1 − c² of the instances: what the data see of the start's direction
SMALL = 0.3  # 1/((1 − c²)N), in which D_N is a series, for N = 9; with the log of the growth


@fact
def infinite(setup: Setup) -> BalancedLimit:
    """The limit for infinitely many layers."""
    return balanced_limit(common.regression(setup), common.start(setup), math.inf)


def seen_share(setup: Setup) -> float:
    """1 − c², what the data see of the start's direction."""
    problem = common.regression(setup)
    start = np.ravel(common.start(setup))
    unit = start / np.linalg.norm(start)
    return 1 - float(np.linalg.norm(outside(problem, unit))) ** 2


def growth(setup: Setup) -> float:
    """Log of the start's size over that of θ(∞), both at infinite depth."""
    start = float(np.linalg.norm(common.start(setup)))
    return math.log(start / float(np.linalg.norm(infinite(setup).theta)))


def many_depths(setup: Setup) -> dict[str, Setup]:
    """Rank-1 nets of several depths from the same predictor."""
    theta0 = np.ravel(common.start(setup))
    runs = {}
    for layers in LAYERS:
        net = Rank1(setup.problem.d, depth=layers, width=1)
        params = init.balanced(net, theta0, key=setup.key)
        # Their shapes are their own; what others record of them is not looked at.
        runs[f"N={2 * layers - 1}"] = setup.replace(
            net=net, params=params, record=cases.PATH, save_at=[setup.save_at[-1]]
        )
    return runs


def first_order(setup: Setup, seen: float) -> float:
    """d(D_N)/d(1/N) at infinite depth."""
    return infinite(setup).distance * growth(setup) / seen


def predict_depth(setup: Setup) -> Told:
    """D for infinitely many layers, and the term of order 1/N."""
    return _told(setup, first_order(setup, seen_share(setup)))


def without_angle(setup: Setup) -> Told:
    """The term of order 1/N without the factor 1/(1 − c²)."""
    return _told(setup, first_order(setup, 1.0))


def _told(setup: Setup, slope: float) -> Told:
    limit = infinite(setup)
    size = max(abs(slope), 0.01 * limit.distance)
    values = {"distance": limit.distance, "order 1/N": equals(slope, scale=size)}
    return Told(values, residual=limit.residual)


def predict_one_depth(setup: Setup) -> Claims:
    """D at the depth of this net, in the place of the limit."""
    return {"distance": end(setup).distance}


def measure_depth(runs: Mapping[str, Run]) -> Measurements:
    """Both from polynomials in 1/N through what the depths show."""
    seen = [measure_limit(runs[f"N={2 * layers - 1}"])["distance"] for layers in LAYERS]
    D = [float(measured(one).value) for one in seen]
    own = max(float(np.max(measured(one).error)) for one in seen)
    small = [1 / (2 * layers - 1) for layers in LAYERS]
    return {
        "distance": extrapolated(small, D, own),
        "order 1/N": extrapolated(small, D, own, order=1),
    }


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def nine_layers(key: int, away: float = 0.5) -> Setup:
    """A start of about the size of the end, on its side of zero.

    Args:
        key: of the draw.
        away: log of the start's size over the end's, in units of 1 − c².
    """
    problem = cases.data(key)
    drawn = cases.direction(key)
    target = np.ravel(problem.min_norm)
    drawn = drawn * np.sign(drawn @ target)
    unseen = outside(problem, drawn)
    seen = float(np.random.default_rng(key).uniform(*SEEN))
    unit = math.sqrt(seen) * _unit(drawn - unseen) + math.sqrt(1 - seen) * _unit(unseen)
    size = float(np.linalg.norm(target)) / math.sqrt(seen) * math.exp(away * seen)
    net = Rank1(d=problem.d, depth=LAYERS[0], width=2)
    params = init.balanced(net, size * unit, key=key)
    until = Until(gap=1e-24, time=float(cases.TIMES[-1]))
    return cases.setup(net, params, key, problem=problem, record=cases.PATH, until=until)


DEPTH = Theorem(
    "rank1.depth",
    r"As the number $N$ of layers grows at a fixed start $\theta(0)$, the distance to the min-norm "
    r"solution tends to $D_\infty = \|X^+y\|\,c/\sqrt{1-c^2}$ with "
    r"$c = \|P_N\theta(0)\|/\|\theta(0)\|$, whatever the scale of the start; that matters by "
    r"$D_\infty\log(\|\theta(0)\|/\|\theta(\infty)\|)/((1-c^2)N)$, to first order in $1/N$.",
    hypotheses=[
        common.one_output(),
        *common.plain(),
        common.balanced(),
        reaches_zero(),
        Hypothesis(
            "nine layers are many for this start",
            lambda s: (1 + abs(growth(s))) / seen_share(s) / (2 * LAYERS[0] - 1),
            SMALL,
        ),
    ],
    predict=predict_depth,
    measure=measure_depth,
    tolerance={"distance": 1e-4, "order 1/N": 1e-3},
    instances=nine_layers,
    controls=[
        Control("nine layers are many for this start", lambda key: nine_layers(key, -10.0)),
        Control("nine layers are as good as any", nine_layers, predict_one_depth, formula=True),
    ],
    terms={"the angle in the term of order 1/N": without_angle},
    runs=many_depths,
    nets=(Deep, Rank1),
    dynamics=(Flow,),
    paper=PAPER,
    title="limit of infinite depth",
)

THEOREMS = (DEPTH,)
