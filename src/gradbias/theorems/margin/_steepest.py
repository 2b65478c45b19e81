"""Normalised steepest descent: the margin of its norm, with a bound at every step."""

import math

import jax.numpy as jnp
import numpy as np

from ...dynamics import Steepest
from ...geometry import L1, L2, Geometry, Linf
from ...nets import Deep, Net
from ...numerics.types import Number, PyTree
from ...observe import running
from ...problems import Classification, Problem, separable
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
    at_least,
    at_most,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases
from ._papers import STEEPEST

STEPS = 200_000


def weights_so_far(
    problem: Problem, net: Net, params: PyTree, gradient: PyTree, lr: Number
) -> PyTree:
    """What a step adds to the sum of lr times the dual weights."""
    assert isinstance(problem, Classification)
    outputs = net(params, problem.X).reshape(problem.n, problem.k)
    return jnp.asarray(lr) * problem.shares(outputs)[:, 0]


NEEDS = cases.THETA | {"weights_so_far": running(weights_so_far)}


def moves(setup: Setup) -> Steepest:
    assert isinstance(setup.dynamics, Steepest)
    return setup.dynamics


def sums(setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Of the steps, and of their squares, up to every save but the start."""
    saves = np.asarray(setup.save_at, int)
    rates = np.diff(moves(setup).time(np.arange(int(saves[-1]) + 1)))
    both = np.cumsum(rates), np.cumsum(rates**2)
    later = saves[saves > 0] - 1
    return both[0][later], both[1][later]


def slack(setup: Setup) -> np.ndarray:
    """(log n + ½B²Ση²)/Ση at every save but the start."""
    problem = cases.classes(setup)
    longest = max(float(moves(setup).geometry.dual_norm(z)) for z in problem.constraints)
    first, second = sums(setup)
    return (math.log(problem.n) + 0.5 * longest**2 * second) / first


def bounds(setup: Setup, margin_of: Geometry | None = None) -> Claims:
    """From both sides, at every save but the start."""
    geometry = moves(setup).geometry
    left = slack(setup)
    told = {"width": at_most(left, scale=left)}
    if isinstance(geometry, cases.SOLVED):
        gamma = cases.classes(setup).max_margin(margin_of or geometry).gamma
        told |= {
            "margin over steps": at_least(gamma - left, scale=gamma),
            "mean weights": at_most(gamma + left, scale=gamma),
        }
    return told


def seen(run: Run) -> dict[str, np.ndarray]:
    """The smallest margin over Ση, and ‖Zᵀp̄‖_* of the mean weights p̄."""
    setup = setup_of(run)
    Z = cases.classes(setup).constraints
    later = np.asarray(run.data["step"].values) > 0
    total = sums(setup)[0]
    mean = run.data["weights_so_far"].values[later] / total[:, None]
    least = cases.margins(run)[later].min(axis=1) / total
    dual = np.array([float(moves(setup).geometry.dual_norm(Z.T @ p)) for p in mean])
    return {"width": dual - least, "margin over steps": least, "mean weights": dual}


def measure(run: Run) -> Measurements:
    solved = isinstance(moves(setup_of(run)).geometry, cases.SOLVED)
    found = seen(run)
    return found if solved else {"width": found["width"]}


def limit(setup: Setup, margin_of: Geometry | None = None) -> Told:
    """γ from both sides at the end."""
    gamma = cases.classes(setup).max_margin(margin_of or moves(setup).geometry).gamma
    rest = rest_of(setup)
    claims = {"margin": equals(gamma), "mean weights": equals(gamma)}
    return Told(claims, expected=dict.fromkeys(claims, rest))


def rest_of(setup: Setup) -> float:
    gamma = cases.classes(setup).max_margin(moves(setup).geometry).gamma
    return float(slack(setup)[-1] / gamma)


def measure_end(run: Run) -> Measurements:
    """The margin of the predictor, and what its weights prove."""
    setup = setup_of(run)
    w = cases.predictors(run)[-1]
    own = float(moves(setup).geometry.norm(w))
    least = float((cases.classes(setup).constraints @ w).min())
    return {"margin": least / own, "mean weights": seen(run)["mean weights"][-1]}


def instance(key: int, start: float = 0.0) -> Setup:
    """The step that makes the bound smallest after so many of them; the norm is drawn, too."""
    rng = cases.draws(key, "steepest")
    n = int(rng.integers(4, 8))
    problem = separable(n, n + int(rng.integers(2, 6)), key=key, loss="exponential")
    geometry = (L2(), Linf(), L1())[key % 3]
    longest = max(float(geometry.dual_norm(z)) for z in problem.constraints)
    rate = math.sqrt(2 * math.log(n) / STEPS) / longest
    return Setup(
        problem,
        cases.one_layer(problem),
        cases.start(problem, key, start),
        Steepest(rate, geometry),
        Until(steps=STEPS),
        NEEDS,
        key=key,
    )


def hypotheses() -> list[Hypothesis]:
    """Of the proof: log-sum-exp of steps of a given length, from zero."""
    return [
        *cases.separated(),
        cases.is_linear(),
        kind("the loss is exponential", lambda s: cases.classes(s).loss_name == "exponential"),
        kind("steps have unit length", lambda s: moves(s).normalised),
        kind("there is no momentum", lambda s: float(moves(s).momentum) == 0),
        kind("there is no weight decay", lambda s: float(moves(s).weight_decay) == 0),
        kind("no noise", lambda s: moves(s).noise is None),
        kind("it starts from zero", lambda s: not any(p.any() for p in s.params.values())),
        kind("it takes steps", lambda s: s.save_at[-1] > 0),
    ]


_SAID = r"Steepest descent with unit steps of lengths $\eta_k$, from zero, exponential loss, "
THEOREMS = (
    Theorem(
        "margin.steepest",
        _SAID + r"has $\gamma - \epsilon \le m_{\min}/\sum\eta$ and, with the mean weights "
        r"$\bar p = \sum\eta_kp_k/\sum\eta$, $\|Z^\top\bar p\|_* \le m_{\min}/\sum\eta + \epsilon$ "
        r"at every step, $\epsilon = (\log n + \frac12\max_i\|z_i\|_*^2\sum\eta^2)/\sum\eta$, in "
        r"any norm.",
        hypotheses=hypotheses(),
        predict=bounds,
        measure=measure,
        tolerance=1e-9,
        instances=instance,
        controls=[Control("it starts from zero", lambda key: instance(key, 30.0))],
        nets=(Deep,),
        problems=(Classification,),
        dynamics=(Steepest,),
        needs=NEEDS,
        paper=STEEPEST,
        title="bounds on the margin at every step",
        own=True,
    ),
    Theorem(
        "margin.steepest_limit",
        _SAID + r"finds the largest margin of its own norm: $m_{\min}/\|w\| \to \gamma$ and "
        r"$\|Z^\top\bar p\|_* \to \gamma$, up to $\epsilon$ of `margin.steepest`.",
        hypotheses=[
            *hypotheses(),
            kind(
                "the norm has an exact margin",
                lambda s: isinstance(moves(s).geometry, cases.SOLVED),
            ),
            Hypothesis("steps are many and small", rest_of, 0.05),
        ],
        predict=limit,
        measure=measure_end,
        tolerance=1e-9,
        instances=instance,
        controls=[
            Control("it starts from zero", lambda key: instance(key, 60.0)),
            Control(
                "the largest margin of another norm",
                instance,
                lambda s: limit(s, L1() if isinstance(moves(s).geometry, L2 | Linf) else Linf()),
                formula=True,
            ),
        ],
        nets=(Deep,),
        problems=(Classification,),
        dynamics=(Steepest,),
        needs=NEEDS,
        paper=STEEPEST,
        title="the margin of the optimiser's own norm",
    ),
)
