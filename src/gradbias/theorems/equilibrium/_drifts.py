"""The mean change of charges in a step, at every point of many paths, term by term."""

import dataclasses
from typing import NamedTuple

import numpy as np
import xarray as xr

from ...problems import Population, Regression
from ..prelude import Claim, Measured, Setup, Told, common, equals, measured
from ._facts import decay, kappa


class Terms(NamedTuple):
    """What moves the charge of every unit in a step, over leading axes.

    Attributes:
        decay: −4ηγ(1 − ηγ)C.
        noise: ηκ Tr[ΣA].
        gd: η²ḡᵀAḡ.
        pulls: the sum of all that enters, whatever its sign.
    """

    decay: np.ndarray
    noise: np.ndarray
    gd: np.ndarray
    pulls: np.ndarray


@dataclasses.dataclass(frozen=True)
class Share:
    """What each term is multiplied by: all 1 in the theorem, 0 for one that is left out."""

    decay: float = 1.0
    noise: float = 1.0
    gd: float = 1.0


ONE = Share()


class NoiseSides(NamedTuple):
    """Of what enters every unit, and of what leaves it.

    Attributes:
        noise: the trace of the covariance of one sample's gradient, both (…, h).
        mean: the square of the mean gradient.
    """

    noise: tuple[np.ndarray, np.ndarray]
    mean: tuple[np.ndarray, np.ndarray]


def _squares(W1: np.ndarray, W2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sum(W1 * W1, axis=-2), np.sum(W2 * W2, axis=-1)


def _of_samples(problem: Regression, W1: np.ndarray, W2: np.ndarray) -> NoiseSides:
    """Sums over samples of the squared gradients, 2c·x(r·u) and 2c·(w·x)r, less their means'."""
    X = np.asarray(problem.X)
    hidden = X @ W1
    R = hidden @ W2 - problem.labels
    back = R @ np.swapaxes(W2, -1, -2)
    four = 4 * (float(problem.weight) * problem.n) ** 2
    mean = _squares(X.T @ back / problem.n, np.swapaxes(hidden, -1, -2) @ R / problem.n)
    enter = np.mean(np.sum(X * X, axis=1)[:, None] * back**2, axis=-2)
    leave = np.mean(np.sum(R * R, axis=-1)[..., None] * hidden**2, axis=-2)
    return NoiseSides(
        (four * (enter - mean[0]), four * (leave - mean[1])), (four * mean[0], four * mean[1])
    )


def _of_fresh(problem: Population, W1: np.ndarray, W2: np.ndarray) -> NoiseSides:
    """Fourth moments of Gaussian inputs: Cov of x(r·u) is E[(r·u)²]Σx + mean·meanᵀ."""
    S = np.asarray(problem.sigma_x)
    error = W1 @ W2 - np.asarray(problem.V).T
    spread = np.swapaxes(error, -1, -2) @ S @ error + problem.sigma_eps
    G = S @ error
    four = 4 * float(problem.weight) ** 2
    mean = _squares(G @ np.swapaxes(W2, -1, -2), np.swapaxes(W1, -1, -2) @ G)
    enter = np.trace(S) * np.sum((W2 @ spread) * W2, axis=-1)
    trace = np.trace(spread, axis1=-2, axis2=-1)[..., None]
    leave = trace * np.sum((S @ W1) * W1, axis=-2)
    return NoiseSides(
        (four * (enter + mean[0]), four * (leave + mean[1])), (four * mean[0], four * mean[1])
    )


def terms(
    setup: Setup, W1: np.ndarray, W2: np.ndarray, lr: float, rate: float | None = None
) -> Terms:
    """At points (…, d, h) and (…, h, k), of a step of size lr with κ = rate."""
    problem = setup.problem
    sides = (
        _of_samples(problem, W1, W2)
        if isinstance(problem, Regression)
        else _of_fresh(common.population(setup), W1, W2)
    )
    rate = kappa(setup) if rate is None else rate
    gamma = decay(setup)
    enter, leave = _squares(W1, W2)
    kept = 4 * lr * gamma * (1 - lr * gamma)
    parts = [(kept, (enter, leave)), (lr * rate, sides.noise), (lr * lr, sides.mean)]
    moves = [c * (a - b) for c, (a, b) in parts]
    return Terms(
        -moves[0], moves[1], moves[2], np.sum([c * (a + b) for c, (a, b) in parts], axis=0)
    )


def layers(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The two layers at every save but the last, (members, saves, …)."""
    W1, W2 = (run[f"params_{name}"].values[:, :-1] for name in ("W1", "W2"))
    return W1, W2


def summed(found: Terms, share: Share, time: float = 1.0) -> Claim:
    """A claim: the mean over members of the sum over steps, over a time.

    Errors are relative to all that pulls: the two sides of a unit may cancel.
    """
    each = share.decay * found.decay + share.noise * found.noise + share.gd * found.gd
    scale = float(np.max(found.pulls.mean(axis=0).sum(axis=0)))
    return equals(each.mean(axis=0).sum(axis=0) / time, scale=scale / time)


def predict_drift(setup: Setup, run: xr.Dataset, share: Share = ONE) -> Told:
    """The mean over members of what the law says along their own paths."""
    found = terms(setup, *layers(run), common.learning_rate(setup))
    return Told({"drift": summed(found, share)})


def paired(charges: np.ndarray, time: float = 1.0) -> Measured:
    """The mean change of C (members, saves, …), and how far it is from what its path predicts.

    What a path predicts is known before each step, so that the surprises of the steps are not
    correlated with it, nor with each other: their variances add up, and each is at most that of
    the change of C in the step.
    """
    steps = np.diff(charges, axis=1)
    error = np.sqrt(np.sum(np.var(steps, axis=0, ddof=1), axis=0) / len(steps))
    return measured(steps.sum(axis=1).mean(axis=0) / time, standard_error=error / time)
