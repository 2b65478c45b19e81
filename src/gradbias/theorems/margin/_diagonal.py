"""Diagonal nets between the margins of ℓ2 and ℓ1: the loss over the scale of the start decides."""

import numpy as np

from ...dynamics import Flow
from ...geometry import L1, L2, Geometry
from ...nets import Diagonal
from ...observe import log_loss
from ...problems import Classification, separable
from ...theory import margin
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Predict,
    Run,
    Setup,
    Theorem,
    Told,
    Until,
    fact,
    kind,
    setup_of,
)
from . import _instances as cases
from ._papers import DIAGONAL

LEVEL = 2000.0  # of log t, about −log L
LEVELS = 8
NOTHING = 1e-9  # of a multiplier's share
NEEDS = cases.THETA | {"log_loss": log_loss}


def scale(setup: Setup) -> float:
    """α of u = v = α."""
    return float(np.ravel(setup.params["u"])[0])


def last(setup: Setup) -> dict[str, Setup]:
    """The end alone."""
    return {"run": setup.replace(save_at=[cases.log_times(setup)[-1]])}


@fact
def shares(setup: Setup) -> np.ndarray:
    """By how much each multiplier grows with the margin, at several levels up to the last."""
    end = float(cases.log_times(setup)[-1]) / scale(setup) ** 2  # −log L is about log t
    return growth(cases.classes(setup), end)


def growth(problem: Classification, level: float) -> np.ndarray:
    """Differences of the multipliers from level to level, of sum one in each row."""
    levels = level * np.linspace(0, 1, LEVELS + 1)[1:]
    paths = [margin.diagonal_margin(problem, each).multipliers for each in levels]
    steps = np.diff([np.zeros(problem.n), *paths], axis=0)
    return steps / steps.sum(axis=1, keepdims=True)


def shrinks(setup: Setup) -> float:
    """By how much a multiplier would have to become smaller, which none does along the flow."""
    return float(max(0.0, -shares(setup).min()))


def predict(setup: Setup, run: Run) -> Told:
    """The minimiser of the hyperbolic entropy with margins of −log L/α²."""
    level = -float(run.data["log_loss"].values[-1]) / scale(setup) ** 2
    told = margin.diagonal_margin(cases.classes(setup), level)
    return Told({"w/α²": told.w}, told.residual)


def as_norm(geometry: Geometry) -> Predict:
    """As if it were the largest margin of a norm already."""
    return lambda setup, run: _as_norm(setup, run, geometry)


def _as_norm(setup: Setup, run: Run, geometry: Geometry) -> Claims:
    level = -float(run.data["log_loss"].values[-1]) / scale(setup) ** 2
    return {"w/α²": level * np.asarray(cases.classes(setup).max_margin(geometry).w)}


def measure(run: Run) -> Measurements:
    return {"w/α²": cases.predictors(run)[-1] / scale(setup_of(run)) ** 2}


def unequal(setup: Setup) -> float:
    """How far u and v are from one number."""
    both = np.concatenate([np.ravel(setup.params[name]) for name in ("u", "v")])
    return float(np.ptp(both) / np.abs(both).max())


def early(setup: Setup) -> float:
    """What is not yet sharp at −log L, about log t, relative to it."""
    end = float(cases.log_times(setup)[-1])
    return blur(cases.classes(setup), end / scale(setup) ** 2, shares(setup)[-1]) / end


def blur(problem: Classification, level: float, p: np.ndarray) -> float:
    """How far support vectors are apart, the logarithms of their shares, and 1/slack of others.

    A sample whose margin is s above takes part with e^{−sℓ}, 1/s all in all; that stays.
    """
    slack = problem.constraints @ margin.diagonal_margin(problem, level).w / level - 1
    on = p > NOTHING
    with np.errstate(divide="ignore"):
        others = np.sum(1 / np.maximum(slack[~on], 0.0))
    return float(1 + np.abs(np.log(len(p) * p[on])).max() + others)


def instance(key: int, spread: float = 0.0) -> Setup:
    """−log L/α² of order one: neither ℓ2 nor ℓ1."""
    rng = cases.draws(key, "diagonal")
    n = int(rng.integers(3, 7))
    d = n + int(rng.integers(2, 6))
    level = float(10 ** rng.uniform(0.7, 1.7))

    def grows(problem: Classification) -> bool:
        p = growth(problem, level)
        return bool(p.min() >= 0 and blur(problem, level, p[-1]) < 12)

    loss = ("exponential", "logistic")[key % 2]
    problem = cases.found(key, "diagonal", lambda k: separable(n, d, key=k, loss=loss), grows)
    alpha = float(np.sqrt(LEVEL / level))
    both = alpha * rng.uniform(1 - spread, 1 + spread, d)
    params = {"u": both, "v": both}
    flow = cases.by_loss(1e-9)
    until = Until(log_time=LEVEL)
    return Setup(problem, Diagonal(d), params, flow, until, NEEDS, [LEVEL], key=key)


THEOREMS = (
    Theorem(
        "margin.diagonal",
        r"The flow of $w = u^2 - v^2$ from $u = v = \alpha$ has, where $-\log L = \mu\alpha^2$ is "
        r"large, $w/\alpha^2 \to \arg\min\sum_jq(w_j)$ with margins of at least $\mu$, "
        r"$q' = \frac14\asinh(w/2)$: the separator of $\ell_2$ for small $\mu$, of $\ell_1$ for "
        r"large; as long as no multiplier shrinks with $\mu$.",
        hypotheses=[
            *cases.separated(),
            kind("there are two classes", lambda s: cases.classes(s).vector),
            cases.is_flow(),
            kind("its clock is the loss", lambda s: s.dynamics.axis == "log_time"),
            Hypothesis("u and v start at one number", unequal, 1e-9),
            Hypothesis("no multiplier shrinks as the margin grows", shrinks, NOTHING),
            Hypothesis("the run is long", early, 0.05, True, "O(1/log t)"),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-4,
        instances=instance,
        controls=[
            Control("u and v start at one number", lambda key: instance(key, 0.5)),
            Control("it is the margin of ℓ1", instance, as_norm(L1()), formula=True),
            Control("it is the margin of ℓ2", instance, as_norm(L2()), formula=True),
        ],
        runs=last,
        given=("loss",),
        nets=(Diagonal,),
        problems=(Classification,),
        dynamics=(Flow,),
        needs=NEEDS,
        paper=DIAGONAL,
        title="diagonal nets between two margins",
        own=True,
    ),
)
