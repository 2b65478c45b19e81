"""Evidence for the errata of Section C.1, finite steps of a net with one output."""

from typing import NamedTuple

import numpy as np

from ...problems import Regression
from ...theory.spectral import gd_step, whitened_descent
from ...theory.spectral.printed import printed_gd_step
from ..prelude import Evidence
from . import _instances as cases
from ._errata import compared


class OneOutput(NamedTuple):
    """The net of Section C.1: a square W and a vector a."""

    problem: Regression
    W: np.ndarray
    a: np.ndarray
    lr: float


def _one_output(key: int) -> OneOutput:
    rng = cases.draws(key + 11)
    W = rng.standard_normal((cases.D, cases.D))
    a = rng.standard_normal(cases.D)
    return OneOutput(cases.regression(key, k=1, like=cases.SIZES[0]), W, a, cases.LR)


def _params(net: OneOutput) -> dict[str, np.ndarray]:
    return {"W1": net.W, "W2": net.a[:, None]}


def second_layer_step(key: int) -> Evidence:
    """The second layer after a step along the gradient by differences of the loss."""
    net = _one_output(key)

    def loss(a):
        return float(net.problem.loss(net.W @ a[:, None]))

    eye = 0.5 * np.eye(cases.D)  # the loss is quadratic in a: central differences are exact
    slope = np.array([loss(net.a + e) - loss(net.a - e) for e in eye])
    printed = printed_gd_step(net.W, net.a, net.lr)
    corrected = gd_step(net.problem, _params(net), net.lr).W2[:, 0]
    return compared(net.a - net.lr * slope, printed, corrected)


def force_shrinks(key: int) -> Evidence:
    """|R⁺|/|R| on whitened data: at least 1 as printed, and the closed form."""
    star = float(cases.draws(key + 12).uniform(1, 3))
    gamma = 1e-2
    lr = cases.LR
    path = whitened_descent(star, gamma, lr, 60)
    rho = star - path.z1 * path.z2
    true = rho[1:] / rho[:-1]
    z1 = path.z1[:-1]
    z2 = path.z2[:-1]
    rho = rho[:-1]
    closed = 1 - lr * (z1**2 + z2**2) - lr**2 * rho * z1 * z2
    return compared(true, np.maximum(true, 1.0), closed)
