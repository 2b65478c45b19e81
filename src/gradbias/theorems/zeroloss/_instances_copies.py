"""Many independent copies of a small loss as one run: for laws that only a mean shows.

A net on one sample whose outputs are the residuals at many points. Labels are zero and L is the
sum over the copies, each of which moves as if it were alone.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...dynamics import Descent
from ...nets import FunctionNet, general
from ...noise import Noise, ParameterNoise
from ...numerics.counter_rng import normal
from ...numerics.host_rng import generator
from ...numerics.types import Array
from ...problems import Curve, Motor, Regression
from ..prelude import Hypothesis, Measured, Run, Setup, Until, kind
from ._measurements import mean_of
from ._two_steps import halved

COPIES = 8192
LR = 0.04
# Sums of mean zero that every copy carries along: on the motor; on the ellipse, some of which fade.
RIDERS = 6
FADING = np.repeat([0.0, 0.01, 0.03], 5)
MOTOR = Motor(5, (0.6, 0.8))
CURVE = Curve()


def _motors(params, X):
    return _outputs(MOTOR, params, X)


def _curves(params, X):
    return _outputs(CURVE, params, X)


def _outputs(loss, params, X):
    flat = jax.vmap(loss.residual)(jnp.asarray(params["x"])).ravel()
    return jnp.broadcast_to(flat[None, :], (X.shape[0], flat.size))


MOTORS = general(_motors)
CURVES = general(_curves)


def angle(problem, net, params):
    """The angle of every copy in its first two coordinates."""
    return jnp.arctan2(params["x"][:, 1], params["x"][:, 0])


def riders(problem, net, params):
    """The sums of mean zero that every copy carries along."""
    return params["m"]


RECORD = {"angle": angle, "riders": riders}


def _ride(x, noise) -> jax.Array:
    """What riders gain from one draw: functions of x times the draw, so that their mean is zero.

    How far it turns the point, by itself and times functions of where that is; and how much it
    adds to the turn that the coordinates across the plane will make of their squares.
    """
    r = jnp.linalg.norm(x[:2])
    along = jnp.stack([-x[1], x[0]]) / r
    phases = jnp.asarray(MOTOR.phases)
    across = x[2:] * noise[2:] * (phases @ along) / (2 + phases @ x[:2])
    turn = along @ noise[:2] / r
    out = (r - 1) * noise[:2] @ x[:2] / r
    return jnp.stack([turn, turn * x[0] / r, turn * x[1] / r, (r - 1) * turn, out, across.sum()])


def _slide(x, noise) -> jax.Array:
    """How far a draw moves a point along the ellipse, times waves of where that is."""
    phi = jnp.arctan2(x[1] / CURVE.b, x[0] / CURVE.a)
    along = jnp.stack([-CURVE.a * jnp.sin(phi), CURVE.b * jnp.cos(phi)])
    waves = [jnp.ones(()), jnp.cos(phi), jnp.sin(phi), jnp.cos(2 * phi), jnp.sin(2 * phi)]
    return jnp.stack(waves) * (along @ noise) / jnp.linalg.norm(along)


class CircleNoise(ParameterNoise):
    """σ(x)z for every copy: a constant factor, and the phases of the motor.

    Args:
        factor: (D, D), of the constant part of Σ.
        phase: how much of the motor's own noise there is.
        turn: 1 for the motor's variances, 0 for those without their rotating part.
    """

    matrix: Array
    phase: Array
    turn: Array

    def __init__(self, factor: ArrayLike, phase: float = 0.0, turn: float = 1.0):
        self.matrix = np.asarray(factor, dtype=np.float64)
        self.phase = np.asarray(phase)
        self.turn = np.asarray(turn)

    def draw(self, key, params) -> dict[str, jax.Array]:
        x = params["x"]
        z = normal(key, x.shape)
        noise = z @ jnp.asarray(self.matrix).T
        if x.shape[1] != MOTOR.D:
            fading = jnp.asarray(FADING) * params["m"]  # its mean is zero, as that of m
            return {"x": noise, "m": jnp.tile(jax.vmap(_slide)(x, noise), 3) + fading}
        noise = noise + self.phase * jnp.sqrt(jax.vmap(self.variances)(x)) * z
        return {"x": noise, "m": jax.vmap(_ride)(x, noise)}

    def variances(self, x) -> jax.Array:
        """The diagonal of the phases' part at one point; the stiffness where `turn` is 0."""
        full = MOTOR.variances(x)
        stiff = jnp.concatenate([jnp.zeros(2), 2 + jnp.asarray(MOTOR.phases) @ x[:2]])
        return jnp.maximum(self.turn * full + (1 - self.turn) * stiff, 0.0)

    def factor(self, problem, net, params) -> np.ndarray:
        blocks = [self.matrix] * len(params["x"])
        return np.asarray(scipy.linalg.block_diag(*blocks))  # riders are no part of the loss


def setup(
    net: FunctionNet, x: np.ndarray, noise: Noise | None, steps: int, key: int, lr: float = LR
) -> Setup:
    """Copies of one loss under SGD with that noise."""
    problem = Regression.half_sum(np.ones((1, 1)), np.zeros((1, len(x) * (x.shape[1] - 1))))
    saves = np.linspace(0, steps, 21).astype(int)
    return Setup(
        problem,
        net,
        {"x": x, "m": np.zeros((len(x), RIDERS if x.shape[1] == MOTOR.D else len(FADING)))},
        Descent(lr, noise),
        until=Until(steps=steps),
        record=RECORD,
        save_at=saves,
        key=key,
    )


def motors(
    key: int,
    noise: Noise | None,
    steps: int,
    lr: float = LR,
    phi: float | None = None,
    copies: int = COPIES,
) -> Setup:
    """All copies of the motor at one point of the circle, a random one if it is not given."""
    if phi is None:
        phi = float(generator(key, "zeroloss motor").uniform(-np.pi, np.pi))
    return setup(MOTORS, np.tile(MOTOR.point(phi), (copies, 1)), noise, steps, key, lr)


def of_net(net: FunctionNet, name: str) -> Hypothesis:
    """The net is that one."""
    return kind(f"the net is copies of {name}", lambda s: s.net == net)


def two_steps(given: Setup) -> dict[str, Setup]:
    """With this step and with half of it."""
    return {"run": given, "half": halved(given)}


def steadied(values: np.ndarray, run: Run, known: Sequence[np.ndarray] = ()) -> Measured:
    """The mean of each row, (k, copies), without what riders explain of it: their mean is zero.

    Args:
        values: one row for each mean.
        run: whose riders.
        known: more that explains them, of which the mean over the copies is no chance.
    """
    fixed = [row - row.mean() for row in known]
    seen = np.column_stack([run.data["riders"].values[-1], *fixed])
    seen = seen[:, seen.std(axis=0) > 0]
    centred = seen - seen.mean(axis=0)
    weights = np.linalg.lstsq(centred, values.T - values.mean(axis=1), rcond=1e-9)[0]
    return mean_of(values - (seen @ weights).T, axis=1)


def angles(run: Run) -> np.ndarray:
    """Angles without jumps, (saves, copies)."""
    return np.unwrap(run.data["angle"].values, axis=0)


def circle_noise(setup: Setup) -> CircleNoise | None:
    """The noise of the setup, if it is of this kind."""
    noise = getattr(setup.dynamics, "noise", None)
    return noise if isinstance(noise, CircleNoise) else None
