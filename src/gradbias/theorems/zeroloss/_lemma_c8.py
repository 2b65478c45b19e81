"""The k-phase motor, Lemma C.8: noise that turns a point around a circle for ever."""

import itertools
from typing import Any

import numpy as np
import scipy.integrate

from ..._engine.setup import Setup
from ...dynamics import Descent
from ...nets import FunctionNet
from ...numerics.host_rng import generator
from ...theory import manifold
from .. import _shared_hypotheses as common
from .._claims import measured
from .._erratum import Erratum, Evidence
from .._hypothesis import kind
from .._source import ZEROLOSS as SOURCE
from .._theorem import Control, Theorem
from ._instances_copies import (
    MOTOR,
    MOTORS,
    RECORD,
    CircleNoise,
    angles,
    end_time,
    motors,
    of_net,
    small_step,
)


def tangential(phi: float, sigma: np.ndarray) -> tuple[float, float]:
    """Drift and variance of the angle on the motor's circle, under Σ."""
    x = MOTOR.point(phi)
    along = np.concatenate([[-np.sin(phi), np.cos(phi)], np.zeros(MOTOR.D - 2)])
    drift = manifold.drift(x, sigma, residual=MOTOR.residual)
    return float(along @ drift), float(along @ sigma @ along)


def predict_turn(setup: Setup) -> dict[str, Any]:
    """The angular speed at the start, which is the same everywhere."""
    x = np.asarray(setup.params["x"])[0]
    sigma = np.diag(np.asarray(MOTOR.variances(x)))
    return {"speed": tangential(float(np.arctan2(x[1], x[0])), sigma)[0]}


def turned(runs: Any) -> dict[str, Any]:
    """The mean angle that was covered, over time."""
    run = runs["run"]
    phi = angles(run)
    speeds = (phi[-1] - phi[0]) / end_time(run.setup)
    error = speeds.std(ddof=1) / np.sqrt(len(speeds))
    return {"speed": measured(speeds.mean(), standard_error=error)}


def printed_speed(key: int) -> Evidence:
    """(D − 2)/2 and (D − 2)/8 against second differences of Φ's angle."""
    phi = float(generator(key, "zeroloss motor").uniform(-np.pi, np.pi))
    x = MOTOR.point(phi)
    columns = np.diag(np.sqrt(MOTOR.variances(x)))[2:]
    bends = [np.sum(_turned(x, h * columns)) / h**2 for h in (0.04, 0.02, 0.01)]
    once = [(4 * b - a) / 3 for a, b in itertools.pairwise(bends)]
    speed = (16 * once[1] - once[0]) / 15
    return Evidence(abs((MOTOR.D - 2) / 2 / speed - 1), abs(MOTOR.speed / speed - 1))


def _turned(x: np.ndarray, kicks: np.ndarray) -> np.ndarray:
    """The angle by which gradient flow from x + kick ends beside x, the flow by hand."""
    starts = x + kicks  # Φ is even in these coordinates: one side is enough

    def field(_, y: np.ndarray) -> np.ndarray:
        y = y.reshape(starts.shape)
        plane, rest = y[:, :2], y[:, 2:]
        out = 0.5 * (np.sum(plane**2, axis=1) - 1)[:, None] * plane
        out = out + 0.5 * rest**2 @ MOTOR.phases
        return -np.hstack([out, (2 + plane @ MOTOR.phases.T) * rest]).ravel()

    end = scipy.integrate.solve_ivp(
        field, (0.0, 40.0), starts.ravel(), "DOP853", rtol=1e-12, atol=1e-14
    )
    plane = end.y[:, -1].reshape(starts.shape)[:, :2]
    return plane @ np.array([-x[1], x[0]]) / (plane @ x[:2])


NONE = np.zeros((5, 5))
LEMMAC_8 = Theorem(
    "zeroloss.lemmaC.8",
    r"Noise across the manifold can turn a point around a circle for ever, without a potential: "
    r"the $k$-phase motor turns with the angular speed $(D-2)/8$ in time $t = k\eta^2$.",
    [
        of_net(MOTORS, "the motor"),
        kind("the noise is the motor's", lambda s: _is_motor(s.dynamics)),
        *common.plain(),
        small_step(1.5),
    ],
    predict_turn,
    turned,
    0.01,
    lambda key: motors(key, CircleNoise(NONE, 1.0), 800),
    [Control("the noise turns", lambda key: motors(key, CircleNoise(NONE, 1.0, 0.0), 800))],
    nets=(FunctionNet,),
    dynamics=(Descent,),
    needs=RECORD,
    errata=(
        Erratum(
            "Lemma C.8",
            r"angular speed $(D-2)/2$",
            r"angular speed $(D-2)/8$",
            "numeric",
            printed_speed,
            r"$L_H^{-1}$ halves, and so does the sum over the phases.",
        ),
        Erratum(
            "App. C.4", r"$\alpha = D-2$ as we read it", r"$\alpha = 2\pi/(D-2)$", "convention"
        ),
    ),
    source=SOURCE,
    title="the k-phase motor",
)


def _is_motor(dynamics: Any) -> bool:
    noise = getattr(dynamics, "noise", None)
    return (
        isinstance(noise, CircleNoise)
        and not np.any(noise.matrix)
        and float(noise.phase) == 1 == float(noise.turn)
    )


THEOREMS = (LEMMAC_8,)
