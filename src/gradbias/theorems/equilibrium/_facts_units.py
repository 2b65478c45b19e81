"""Hidden units of a factorisation by theory: their noise, their charges, what pulls at them."""

from collections.abc import Sequence

import numpy as np

from ...problems import Problem, QuadraticProblem
from ...theory.symmetry import factorisation_noise, noether_flow
from ..prelude import Setup, common
from . import _instances as cases
from ._facts import decay, kappa

MU = np.array([1.0, -1.0])  # what enters a unit, and what leaves it
Spectra = list[tuple[np.ndarray, np.ndarray]]


def spectra(problem: Problem, params: cases.Params) -> Spectra:
    """(σ², θ²) over μ for every hidden unit."""
    U, W = cases.layers(params)
    noise_U, noise_W = factorisation_noise(problem, U, W)
    return [
        (np.array([noise_W[j, j], noise_U[j, j]]), np.array([W[j] @ W[j], U[:, j] @ U[:, j]]))
        for j in range(len(W))
    ]


def sample_square(problem: QuadraticProblem, params: cases.Params) -> float:
    """E‖∂ℓ/∂Θ‖² of one sample; times a layer's square it bounds a unit's noise on the other side.

    Noise far below it is rounding.
    """
    U, W = cases.layers(params)
    d = W.shape[1]
    k = len(U)
    # Units that put nothing out leave the predictor as it is, and see every input.
    seeing = factorisation_noise(
        problem, np.hstack([U, np.zeros((k, d))]), np.vstack([W, np.eye(d)])
    )
    spread = np.trace(seeing.noise_U[len(W) :, len(W) :])
    return float(spread + np.sum(np.asarray(problem.theta_gradient((U @ W).T)) ** 2))


def mean_squares(problem: QuadraticProblem, params: cases.Params) -> np.ndarray:
    """(hidden, 2): the squares of the mean gradient on both sides of every unit."""
    U, W = cases.layers(params)
    G = np.asarray(problem.theta_gradient((U @ W).T)).T
    return np.stack([np.sum((U.T @ G) ** 2, axis=1), np.sum((G @ W.T) ** 2, axis=0)], axis=1)


def charges(params: cases.Params) -> np.ndarray:
    """‖in‖² − ‖out‖² of every unit, over leading axes."""
    return np.sum(params["W1"] ** 2, axis=-2) - np.sum(params["W2"] ** 2, axis=-1)


def steps_of(setup: Setup, path: Sequence[cases.Params]) -> np.ndarray:
    """The mean change of every unit's charge in one step from each of these points, in all.

    It is linear in noise, squares and squared gradients: they are summed first.
    """
    lr = common.learning_rate(setup)
    gamma = decay(setup)
    steps = []
    both = np.sum([np.asarray(spectra(setup.problem, p)) for p in path], axis=0)
    squares = np.sum([mean_squares(common.quadratic(setup), p) for p in path], axis=0)
    for (noise, theta), mean in zip(both, squares, strict=True):
        flow = noether_flow(MU, noise, theta, kappa(setup), gamma, mean, lr)
        # The flow is the small-step form; a step has (1 − 2ηγ)², exactly.
        steps.append(lr * flow + 4 * (lr * gamma) ** 2 * flow.charge)
    return np.asarray(steps)


def pulls(setup: Setup, params: cases.Params) -> float:
    """The largest sum of all that pulls a charge per unit of time, whatever the sign.

    A drift in which the two sides of a unit cancel must not be judged by its own size.
    """
    lr = common.learning_rate(setup)
    gamma = decay(setup)
    squares = mean_squares(common.quadratic(setup), params)
    return max(
        float(kappa(setup) * s.sum() + 4 * gamma * t.sum() + lr * g.sum())
        for (s, t), g in zip(spectra(setup.problem, params), squares, strict=True)
    )
