"""Many independent copies of a small loss as one run: for laws that only a mean shows.

A net on one sample whose outputs are the residuals at many points. Labels are zero and L is the
sum over the copies, each of which moves as if it were alone.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import FunctionNet, general
from ...noise import ParameterNoise
from ...numerics.counter_rng import normal
from ...numerics.host_rng import generator
from ...problems import Curve, Motor, Regression
from ...theory import manifold
from .. import _shared_hypotheses as common
from .._hypothesis import Hypothesis, kind

COPIES, LR = 2048, 0.04
MOTOR, CURVE = Motor(5, (0.6, 0.8)), Curve()


def _motors(params, X):
    return _outputs(MOTOR, params, X)


def _curves(params, X):
    return _outputs(CURVE, params, X)


def _outputs(loss, params, X):
    flat = jax.vmap(loss.residual)(jnp.asarray(params["x"])).ravel()
    return jnp.broadcast_to(flat[None, :], (X.shape[0], flat.size))


MOTORS, CURVES = general(_motors), general(_curves)


def angle(problem, net, params):
    """The angle of every copy in its first two coordinates."""
    return jnp.arctan2(params["x"][:, 1], params["x"][:, 0])


RECORD = {"angle": angle}


class CircleNoise(ParameterNoise):
    """σ(x)z for every copy: a constant factor, and the phases of the motor.

    Args:
        factor: (D, D), of the constant part of Σ.
        phase: how much of the motor's own noise there is.
        turn: 1 for the motor's variances, 0 for those without their rotating part.
    """

    matrix: Any
    phase: Any
    turn: Any

    def __init__(self, factor: Any, phase: float = 0.0, turn: float = 1.0):
        self.matrix = np.asarray(factor, dtype=np.float64)
        self.phase, self.turn = np.asarray(phase), np.asarray(turn)

    def draw(self, key, params) -> Any:
        x = params["x"]
        z = normal(key, x.shape)
        own = z @ jnp.asarray(self.matrix).T
        if x.shape[1] != MOTOR.D:
            return {"x": own}
        return {"x": own + self.phase * jnp.sqrt(jax.vmap(self.variances)(x)) * z}

    def variances(self, x) -> Any:
        """The diagonal of the phases' part at one point; the stiffness where `turn` is 0."""
        full = MOTOR.variances(x)
        stiff = jnp.concatenate([jnp.zeros(2), 2 + jnp.asarray(MOTOR.phases) @ x[:2]])
        return jnp.maximum(self.turn * full + (1 - self.turn) * stiff, 0.0)

    def factor(self, problem, net, params) -> np.ndarray:
        blocks = [self.matrix] * len(params["x"])
        return np.asarray(scipy.linalg.block_diag(*blocks))


def setup(net: FunctionNet, x: np.ndarray, noise: Any, steps: int, key: int) -> Setup:
    """Copies of one loss under SGD with that noise."""
    problem = Regression.half_sum(np.ones((1, 1)), np.zeros((1, len(x) * (x.shape[1] - 1))))
    saves = np.linspace(0, steps, 21).astype(int)
    return Setup(
        problem,
        net,
        {"x": x},
        Descent(LR, noise),
        until=Until(steps=steps),
        record=RECORD,
        save_at=saves,
        key=key,
    )


def motors(key: int, noise: Any, steps: int) -> Setup:
    """All copies of the motor at one point of the circle."""
    phi = float(generator(key, "zeroloss motor").uniform(-np.pi, np.pi))
    return setup(MOTORS, np.tile(MOTOR.point(phi), (COPIES, 1)), noise, steps, key)


def of_net(net: FunctionNet, name: str) -> Hypothesis:
    """The net is that one."""
    return kind(f"the net is copies of {name}", lambda s: s.net == net)


def small_step(share: float) -> Hypothesis:
    """The weak error of a finite step."""

    def margin(setup: Setup) -> float:
        return share * common.learning_rate(setup)

    return Hypothesis("the step is small", margin, 0.1, True, "O(lr)")


def angles(run: Any) -> np.ndarray:
    """Angles without jumps, (saves, copies)."""
    return np.unwrap(run.data["angle"].values, axis=0)


def end_time(setup: Setup) -> float:
    """Time k·lr² at the end."""
    return float(manifold.steps_to_limit(setup.save_at[-1], common.learning_rate(setup)))
