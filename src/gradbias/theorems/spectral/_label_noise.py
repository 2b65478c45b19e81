"""Label noise on data with one direction: exact laws of every step, and the collapse."""

import numpy as np

from ...problems import Regression
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    at_most,
    equals,
    measured,
    setup_of,
)
from . import _instances_noise as cases
from ._instances import WIDTH
from ._measurements import path, transposed
from ._paper import OF_NOISE


def _unit(setup: Setup) -> np.ndarray:
    """The direction of the first row of X."""
    row = np.asarray(cases.data_of(setup).X)[0]
    return row / np.linalg.norm(row)


def _other_directions(setup: Setup) -> float:
    values = np.linalg.svd(np.asarray(cases.data_of(setup).X), compute_uv=False)
    return float(np.sum(values[1:]) / values[0]) if values[0] > 0 else 1.0


ONE_DIRECTION = Hypothesis("the data have one direction", _other_directions, 1e-12)


def _forms(run: Run) -> dict[str, np.ndarray]:
    """wᵀw − aaᵀ and the commutator of w = vᵀW and a, at every save."""
    layers = path(run)
    w = _unit(setup_of(run)) @ layers.W1
    a = layers.W2[:, :, 0]
    outer = w[:, :, None] * a[:, None, :]
    difference = w[:, :, None] * w[:, None, :] - a[:, :, None] * a[:, None, :]
    return {"difference": difference, "commutator": outer - transposed(outer)}


def predict_shrunk(setup: Setup, run: Run) -> Claims:
    """The start times the product of 1 − lr²g²; errors in units of the layers' squares."""
    factor = np.exp(run.data["shrunk"].values)[:, None, None]
    layers = path(run)
    size = np.sum(layers.W1**2, axis=(1, 2)) + np.sum(layers.W2**2, axis=(1, 2))
    return {
        name: equals(factor * value[0], scale=size[:, None, None])
        for name, value in _forms(run).items()
    }


def one_direction(key: int, steps: int = 1000) -> Setup:
    """Label noise beside the gradient, with data of one direction."""
    X = cases.one_direction(key)
    params = cases.random_layers(key, X.shape[1], WIDTH)
    problem = Regression.half_sum(X, X @ np.ones(X.shape[1]))
    return cases.descent(problem, params, key, 0.02, 1.0, steps)


RANK_ONE = Theorem(
    "spectral.noise.rank_one",
    r"Where the data have one direction $v$, a step of descent with any labels multiplies "
    r"$ww^\top-aa^\top$ and $wa^\top-aw^\top$, $w = W^\top v$, by exactly $1-\eta^2g^2$, "
    r"$g = v\cdot R$: noise that never ends makes the layers parallel and balanced.",
    hypotheses=[*cases.HYPOTHESES, ONE_DIRECTION],
    predict=predict_shrunk,
    measure=lambda run: _forms(run),
    tolerance=1e-12,
    instances=one_direction,
    controls=[Control("the data have one direction", lambda key: cases.training(key, steps=1000))],
    needs=cases.RECORD,
    given=("gradients",),
    title="one direction: noise balances and aligns",
    paper=OF_NOISE,
    own=True,
)


COLLAPSE_TIME = 400.0
COLLAPSE_STEPS = 700_000
SIGMAS = 4.5  # of a Brownian motion at one time


def predict_collapsed(setup: Setup) -> Claims:
    """log|w² − a²| falls by t, and all of w and a below e^{−t/2} up to the Brownian motion.

    A step of h makes E log(1 − hz²) = −h − 3h²/2 − … of −h.
    """
    h = _unit_time(setup)
    t = float(np.max(cases.steps_of(setup))) * h
    return {"product": -t * (1 + 1.5 * h), "size": at_most(-t / 2 + SIGMAS * np.sqrt(t))}


def _unit_time(setup: Setup) -> float:
    """(lr·2w·δ)²λ: time of the process of one input in a step."""
    return cases.kick(setup) ** 2 * float(np.linalg.norm(cases.data_of(setup).X, 2)) ** 2


def measure_collapsed(run: Run) -> Measurements:
    """Logarithms at the end, over the start; w² − a² by its factors, for its terms cancel."""
    layers = path(run)
    h = _unit_time(setup_of(run))
    w = _unit(setup_of(run)) @ layers.W1
    a = layers.W2[:, :, 0]
    size = np.log(np.sqrt(np.sum(w**2 + a**2, axis=1)))
    t = float(np.max(cases.steps_of(setup_of(run)))) * h
    product = measured(run.data["shrunk"].values[-1], standard_error=np.sqrt(2 * h * t))
    return {"product": product, "size": size[-1] - size[0]}


def _rounding(setup: Setup) -> float:
    """Rounding of what the data do not see of W1, over the least that |w ± a| may fall to."""
    unit = _unit(setup)
    W = np.asarray(setup.params["W1"])
    t = float(np.max(cases.steps_of(setup))) * _unit_time(setup)
    unseen = float(np.linalg.norm(W - np.outer(unit, unit @ W)))
    return unseen * 1e-16 * float(np.exp(min(t / 2 + SIGMAS * np.sqrt(t), 700.0)))


def collapsing(key: int, directions: int = 1) -> Setup:
    """Noise alone, for a long time; the data are those of one input, and W1 is zero elsewhere."""
    X = np.eye(*cases.SHAPE)
    X[1:] *= directions > 1
    params = cases.random_layers(key, X.shape[1], WIDTH)
    params["W1"] = np.where(np.any(X, axis=0)[:, None], params["W1"], 0.0)
    return cases.alone(key, X, COLLAPSE_TIME, COLLAPSE_STEPS, params=params)


COLLAPSE = Theorem(
    "spectral.noise.collapse",
    r"With one input noise alone makes $w\pm a$ geometric Brownian motions "
    r"$(w_0\pm a_0)e^{\pm B_t-t/2}$: they vanish almost surely, $w^2-a^2$ as $e^{-t}$, although "
    r"their second moments grow as $\cosh t$.",
    hypotheses=[
        *cases.HYPOTHESES,
        cases.ONLY_NOISE,
        ONE_DIRECTION,
        Hypothesis("rounding does not show", _rounding, 1e-3),
        Hypothesis("steps are short", lambda s: 10 * _unit_time(s) ** 2, 0.05, True, "O((lr δ)⁴)"),
    ],
    predict=predict_collapsed,
    measure=measure_collapsed,
    tolerance=1e-3,
    instances=collapsing,
    controls=[Control("the data have one direction", lambda key: collapsing(key, 2))],
    needs=cases.RECORD,
    title="one input: noise alone collapses",
    paper=OF_NOISE,
)
