"""Homogeneous nets: how the smoothed margin grows, exactly, and that it never falls."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import entr

from ...dynamics import Flow
from ...nets import general
from ...numerics.precision import host
from ...observe import dual_weights, kkt, log_loss, params, smoothed_margin
from ...problems import Classification, separable
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_least,
    equals,
    fact,
    kind,
)
from . import _instances as cases
from ._papers import HOMOGENEOUS

LOG_TIME = 30.0
WINDOW = 25.0  # of log t, before the end
NODES = 401  # of a quadrature there
NEEDS = {"kkt": kkt, "log_loss": log_loss, "dual_weights": dual_weights, "params": params}


def squared_relu(values, X):
    """Of degree three in its parameters together."""
    hidden = jnp.maximum(X @ values["W1"], 0.0)
    return (hidden * hidden) @ values["W2"]


def with_bias(values, X):
    """The same with a bias that breaks it."""
    hidden = jnp.maximum(X @ values["W1"] + 1.0, 0.0)
    return (hidden * hidden) @ values["W2"]


@host
def outputs(setup: Setup, factor: float) -> np.ndarray:
    """f(cθ) of the data."""
    grown = {name: factor * np.asarray(p) for name, p in setup.params.items()}
    return np.asarray(setup.net(grown, cases.classes(setup).X))


@fact
def degree(setup: Setup) -> float:
    """L of f(2θ) = 2^L f(θ), to the nearest whole number."""
    sizes = [float(np.linalg.norm(outputs(setup, c))) for c in (1.0, 2.0)]
    return float(np.round(np.log2(sizes[1] / sizes[0])))


def not_homogeneous(setup: Setup) -> float:
    """‖f(cθ) − c^L f(θ)‖/‖f(cθ)‖ for c of 2 and 1/2."""
    plain = outputs(setup, 1.0)
    away = []
    for c in (2.0, 0.5):
        grown = outputs(setup, c)
        left = grown - c ** degree(setup) * plain
        away.append(float(np.linalg.norm(left) / np.linalg.norm(grown)))
    return max(away)


def sampled(setup: Setup) -> dict[str, Setup]:
    """Many saves, at equal distances in log t."""
    last = cases.log_times(setup)[-1]
    record = {**setup.record, "smoothed": smoothed_margin(degree(setup))}
    return {"run": setup.replace(save_at=np.linspace(last - WINDOW, last, NODES), record=record)}


def predict(setup: Setup, run: Run, alignment: bool = True) -> Claims:
    """D log γ̃/dℓ = 1/log(1/𝓛) − cos²(θ, ∇φ)/ν, integrated along ℓ = −log L."""
    levels = -run.data["log_loss"].values
    total = levels - np.log(cases.classes(setup).n)  # log(1/𝓛)
    p = run.data["dual_weights"].values
    nu = np.sum(entr(p), axis=1) + total  # Σp_i q_i
    cosine = 1 - run.data["kkt_misalignment"].values if alignment else 1.0
    grown = CubicSpline(levels, cosine**2 / nu).antiderivative()
    told = np.log(total / total[0]) - (grown(levels) - grown(levels[0])) if total[0] > 0 else nu
    return {
        "log γ̃": equals(told, scale=float(np.abs(told).max()) or 1.0),
        "steps of log γ̃": at_least(np.where(total[:-1] > 0, 0.0, -np.inf), scale=1.0),
    }


def measure(run: Run) -> Measurements:
    """Since the first save."""
    logs = np.log(run.data["smoothed"].values)
    return {"log γ̃": logs - logs[0], "steps of log γ̃": np.diff(logs)}


def instance(key: int, function: Callable[..., jax.Array] = squared_relu) -> Setup:
    """A few units on data that can be separated; each is seen by half of them.

    Output weights are small, so that they can still change their signs.
    """
    rng = cases.draws(key, "homogeneous")
    n = int(rng.integers(5, 9))
    d = int(rng.integers(2, 5))
    h = 2 * int(rng.integers(2, 5))
    problem = separable(n, d, key=key, loss="exponential")
    net = general(function, {"W1": (d, h), "W2": (h, 1)})
    half = 0.7 * rng.standard_normal((d, h // 2))
    start = {"W1": np.hstack([half, -half]), "W2": 0.1 * rng.standard_normal((h, 1))}
    moves = cases.by_loss(1e-9)
    until = Until(log_time=LOG_TIME)
    return Setup(problem, net, start, moves, until, NEEDS, [LOG_TIME], key=key)


THEOREMS = (
    Theorem(
        "margin.smoothed",
        r"Of a net with $f(c\theta) = c^Lf(\theta)$ the flow of the exponential loss increases "
        r"$\tilde\gamma = \log(1/\mathcal{L})/\|\theta\|^L$, $\mathcal{L}$ the sum of losses, "
        r"once $\mathcal{L} < 1$: $d\log\tilde\gamma/d\ell = 1/\log(1/\mathcal{L}) - "
        r"\cos^2(\theta, \nabla\ell)/\sum_ip_iq_i$ with $\ell = -\log L$, margins $q_i$ and dual "
        r"weights $p_i$.",
        hypotheses=[
            kind("the loss is exponential", lambda s: cases.classes(s).loss_name == "exponential"),
            cases.is_flow(),
            kind("its clock is the loss", lambda s: s.dynamics.axis == "log_time"),
            Hypothesis("the net is homogeneous", not_homogeneous, 1e-10),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-5,
        instances=instance,
        controls=[
            Control("the net is homogeneous", lambda key: instance(key, with_bias)),
        ],
        runs=sampled,
        given=("path",),
        terms={"the alignment": lambda s, run: predict(s, run, alignment=False)},
        problems=(Classification,),
        dynamics=(Flow,),
        needs=NEEDS,
        paper=HOMOGENEOUS,
        title="the smoothed margin of homogeneous nets",
        own=True,
    ),
)
