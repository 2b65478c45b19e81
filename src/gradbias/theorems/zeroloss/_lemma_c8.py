"""The k-phase motor, Lemma C.8: noise that turns a point around a circle for ever."""

import itertools
from collections.abc import Mapping

import numpy as np
import scipy.integrate

from ...numerics.host_rng import generator
from ...theory import manifold
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Evidence,
    Measured,
    Measurements,
    Run,
    Setup,
    Theorem,
    common,
    kind,
    measured,
    setup_of,
)
from ._instances_copies import (
    MOTOR,
    MOTORS,
    CircleNoise,
    angles,
    circle_noise,
    motors,
    of_net,
    steadied,
    two_steps,
)
from ._measurements import end_time
from ._paper import OF_COPIES
from ._two_steps import extrapolated, small_step


def tangential(phi: float, sigma: np.ndarray) -> tuple[float, float]:
    """Drift and variance of the angle on the motor's circle, under Σ."""
    x = MOTOR.point(phi)
    along = np.concatenate([[-np.sin(phi), np.cos(phi)], np.zeros(MOTOR.D - 2)])
    drift = manifold.drift(x, sigma, residual=MOTOR.residual)
    return float(along @ drift), float(along @ sigma @ along)


def predict_turn(setup: Setup) -> Claims:
    """The angular speed at the start, which is the same everywhere."""
    x = np.asarray(setup.params["x"])[0]
    sigma = np.diag(np.asarray(MOTOR.variances(x)))
    return {"speed": tangential(float(np.arctan2(x[1], x[0])), sigma)[0]}


def measure_turn(runs: Mapping[str, Run]) -> Measurements:
    """The mean angle that was covered, over time, extrapolated to lr = 0."""
    coarse, fine = (_speed(runs[name]) for name in ("run", "half"))
    return {"speed": extrapolated(coarse, fine)}


def _speed(run: Run) -> Measured:
    phi = angles(run)
    mean = steadied((phi[-1:] - phi[:1]) / end_time(setup_of(run)), run)
    assert mean.standard_error is not None
    return measured(mean.value[0], standard_error=mean.standard_error[0])


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
        plane = y[:, :2]
        rest = y[:, 2:]
        out = 0.5 * (np.sum(plane**2, axis=1) - 1)[:, None] * plane
        out = out + 0.5 * rest**2 @ MOTOR.phases
        return -np.hstack([out, (2 + plane @ MOTOR.phases.T) * rest]).ravel()

    end = scipy.integrate.solve_ivp(
        field, (0.0, 40.0), starts.ravel(), "DOP853", rtol=1e-12, atol=1e-14
    )
    plane = end.y[:, -1].reshape(starts.shape)[:, :2]
    return plane @ np.array([-x[1], x[0]]) / (plane @ x[:2])


def _has_motor_noise(setup: Setup) -> bool:
    noise = circle_noise(setup)
    return (
        noise is not None
        and not np.any(noise.matrix)
        and float(noise.phase) == 1 == float(noise.turn)
    )


NONE = np.zeros((5, 5))
STEPS = 400
LEMMAC_8 = Theorem(
    "zeroloss.lemmaC.8",
    r"Noise across the manifold can turn a point around a circle for ever, without a potential: "
    r"the $k$-phase motor turns with the angular speed $(D-2)/8$ in time $t = k\eta^2$.",
    hypotheses=[
        of_net(MOTORS, "the motor"),
        kind("the noise is the motor's", _has_motor_noise),
        *common.plain(),
        small_step(common.learning_rate, 2.0),
    ],
    predict=predict_turn,
    measure=measure_turn,
    tolerance=0.002,
    instances=lambda key: motors(key, CircleNoise(NONE, 1.0), STEPS),
    controls=[
        Control("the noise turns", lambda key: motors(key, CircleNoise(NONE, 1.0, 0.0), STEPS))
    ],
    runs=two_steps,
    errata=(
        Erratum(
            "Lemma C.8",
            r"angular speed $(D-2)/2$",
            r"angular speed $(D-2)/8$",
            "false",
            evidence=printed_speed,
            quote="Y (t) moves anti-clockwise with a constant angular speed of (D - 2)/2.",
            note="(33) repeats it. $L_H^{-1}$ halves, and so does the sum over the phases.",
            predict=lambda setup: {"speed": (MOTOR.D - 2) / 2},
        ),
        Erratum(
            "App. C.4",
            r"$\alpha = D-2$",
            r"$\alpha = 2\pi/(D-2)$",
            "reading",
            quote="where α = D-2 and V is any",
            note="A numerator may have been lost on the way to the text: check against the PDF.",
        ),
    ),
    paper=OF_COPIES,
    title="the k-phase motor",
)

THEOREMS = (LEMMAC_8,)
