"""Instances with label noise, and what the theorems about it ask of a setup."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ... import observe
from ...dynamics import Descent
from ...init import orthogonal
from ...nets import TwoLayer
from ...noise import LabelNoise
from ...problems import Regression
from ..prelude import Hypothesis, Setup, Until, kind
from . import _instances as cases
from ._facts import ONE_OUTPUT, PLAIN, STEADY, rate_of

SHAPE = (cases.N, cases.D)
STD = 0.5
ALONE = 1e-15  # a learning rate at which only noise, made as much larger, moves anything


def shrinking(problem, net, params, gradient, lr):
    """log(1 − lr²g²) of data with one direction, where R = g times that direction."""
    unit = problem.X[0] / jnp.sqrt(jnp.sum(problem.X[0] ** 2))
    size = jnp.sum((unit @ params["W1"]) ** 2) + jnp.sum(params["W2"] ** 2)
    square = sum(jnp.sum(gradient[name] ** 2) for name in ("W1", "W2")) / size
    return jnp.log1p(-(lr**2) * square)


def area(problem, net, params, gradient, lr):
    """The loss, without the noise of this step, times the time of gradient flow."""
    return lr * problem.net_loss(net, params)


def loss_of_step(problem, net, params, gradient, lr):
    """The loss, without the noise of this step."""
    return problem.net_loss(net, params)


RECORD = {
    "params": observe.params,
    "shrunk": observe.running(shrinking),
    "area": observe.running(area),
}


def data_of(setup: Setup) -> Regression:
    """The problem, known to have samples."""
    assert isinstance(setup.problem, Regression)
    return setup.problem


def noise_of(setup: Setup) -> LabelNoise | None:
    """The label noise of descent, if every step sees all rows."""
    noise = getattr(setup.dynamics, "noise", None)
    return noise if isinstance(noise, LabelNoise) and noise.batch_size is None else None


def kick(setup: Setup) -> float:
    """What a step moves the layers by per unit of noise: lr·2w·δ, the paper's ηδ."""
    noise = noise_of(setup)
    assert noise is not None
    return rate_of(setup) * 2 * float(data_of(setup).weight) * float(noise.std)


LABELS = kind("the noise is on all labels", lambda setup: noise_of(setup) is not None)
HYPOTHESES = [ONE_OUTPUT, PLAIN, STEADY, LABELS]


def steps_of(setup: Setup) -> np.ndarray:
    """The saves, in steps."""
    return np.asarray(setup.save_at, dtype=np.float64)


def _gradient_share(setup: Setup) -> float:
    """How far the gradient moves the layers in the whole run, relative, if they stay as large."""
    problem = data_of(setup)
    size = sum(float(np.sum(np.square(w))) for w in setup.params.values())
    zero = np.zeros((problem.d, problem.k))
    curvature = 2 * float(problem.weight) * float(np.linalg.norm(problem.X, 2)) ** 2
    force = curvature * size + float(np.linalg.norm(problem.theta_gradient(zero)))
    return rate_of(setup) * force * float(np.max(steps_of(setup), initial=0.0))


ONLY_NOISE = Hypothesis("noise outweighs the gradient", _gradient_share, 1e-6)


def descent(
    problem: Regression,
    params: dict[str, np.ndarray],
    key: int,
    lr: float,
    std: float,
    steps: int,
    saves: int = 41,
    momentum: float = 0.0,
    **more: Any,
) -> Setup:
    """Label-noise descent with evenly spaced saves."""
    net = TwoLayer(problem.d, 1, params["W1"].shape[1])
    moves = Descent(lr, LabelNoise(std, law="gaussian"), momentum)
    at = np.unique(np.round(np.linspace(0, steps, saves)))
    arguments = {"until": Until(steps=steps), "save_at": at, "record": RECORD, **more}
    return Setup(problem, net, params, moves, key=key, **arguments)


def random_layers(key: int, d: int, width: int) -> dict[str, np.ndarray]:
    """Layers of standard normal entries."""
    rng = cases.draws(key + 21)
    return {"W1": rng.standard_normal((d, width)), "W2": rng.standard_normal((width, 1))}


def alone(
    key: int, X: np.ndarray, time: float, steps: int, width: int = cases.WIDTH, **more: Any
) -> Setup:
    """Noise without a gradient, for a given time of the noise-only process."""
    problem = Regression.half_sum(X, np.zeros(len(X)))
    params = more.pop("params", None) or random_layers(key, X.shape[1], width)
    return descent(problem, params, key, ALONE, np.sqrt(time / steps) / ALONE, steps, **more)


def one_direction(key: int) -> np.ndarray:
    """Data whose rows are multiples of one unit vector, of Frobenius norm one."""
    rng = cases.draws(key + 22)
    return np.outer(cases.frame(rng, cases.N, 1), cases.frame(rng, cases.D, 1))


def training(key: int, std: float = STD, steps: int = 80_000, **more: Any) -> Setup:
    """Label noise beside the gradient on whitened data, from I_γ."""
    problem = cases.regression(key, k=1, whitened=True, like=cases.SIZES[0])
    params = orthogonal(TwoLayer(cases.D, 1, cases.WIDTH), cases.draw_gamma(key), key=key)
    return descent(problem, params, key, more.pop("lr", cases.LR), std, steps, **more)
