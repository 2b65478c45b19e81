"""Gradient descent, with or without noise."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..nets import Net
from ..noise import Noise
from ..numerics import checks, counter_rng
from ..numerics.types import Number, PyTree
from ..problems import Problem
from ._gradient import decayed
from ._schedules import Schedule
from ._steps import MomentumStepper, Optimiser, learning_rate, noise_law, or_none
from .protocol import System


class DescentStepper(MomentumStepper):
    """p ← p − lr·v with v ← βv + g, for Nesterov p ← p − lr·(g + βv).

    Attributes:
        nesterov: is the gradient counted once more?
        velocity: v at the start; None for zero.
    """

    nesterov: bool = eqx.field(static=True)
    velocity: Any

    def begin(self, system: System, params: PyTree) -> PyTree:
        if self.velocity is None:
            return super().begin(system, params)
        return jax.tree.map(jnp.asarray, self.velocity)

    def time_of(self, lr: Number) -> Number:
        return lr if self.momentum is None else lr / (1 - self.momentum)

    def move(self, params: PyTree, grads: PyTree, memory: PyTree, lr: Number) -> tuple[Any, Any]:
        move = decayed(grads, params, self.weight_decay)
        if self.momentum is not None:
            memory = jax.tree.map(lambda v, g: self.momentum * v + g, memory, move)
            if self.nesterov:
                move = jax.tree.map(lambda v, g: g + self.momentum * v, memory, move)
            else:
                move = memory
        return jax.tree.map(lambda p, m: p - lr * m, params, move), memory


class Descent(Optimiser):
    """Gradient descent: GD, or SGD with a noise law.

    Momentum as in torch: v ← βv + g, p ← p − lr·v; Nesterov's p ← p − lr·(g + βv).

    Args:
        lr: learning rate: a number, `gb.dynamics.piecewise({0: .001, 5000: .008})`, or any
            function of the step.
        noise: what each step sees of the data; all of it if None.
        momentum: β, in [0, 1).
        weight_decay: γ of the objective L + γ‖params‖², whose gradient is 2γ·params (torch's
            `weight_decay` is 2γ).
        nesterov: Nesterov's momentum instead of the heavy ball.
        velocity: v at the start, a dict like the parameters; zero if None.
    """

    lr: Any
    noise: Noise | None
    momentum: Any
    weight_decay: Any
    nesterov: bool = eqx.field(static=True)
    velocity: Any

    def __init__(
        self,
        lr: float | Schedule,
        noise: Noise | None = None,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        velocity: Mapping[str, ArrayLike] | None = None,
    ):
        self.lr = learning_rate(lr)
        self.noise = noise_law(noise)
        self.momentum = np.asarray(checks.number("momentum", momentum, at_least=0, below=1))
        self.weight_decay = np.asarray(checks.number("weight_decay", weight_decay, at_least=0))
        self.nesterov = checks.boolean("nesterov", nesterov)
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov=True needs momentum above 0, got 0.0")
        self.velocity = _velocity(velocity)
        if self.velocity is not None and self.momentum == 0:
            raise ValueError("velocity needs momentum above 0, got 0.0")

    @property
    def may_rest(self) -> bool:
        return self.noise is None and not callable(self.lr)

    def at_rate(self, lr: float) -> "Descent":
        """The same with another learning rate."""
        return eqx.tree_at(lambda steps: steps.lr, self, learning_rate(lr))

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        super().check(problem, net, limit)
        shapes = net.shapes()
        if self.velocity is None or shapes is None:
            return
        for name in sorted(set(shapes) ^ set(self.velocity)):
            raise ValueError(
                f"velocity must have the names of the parameters, {sorted(shapes)}; it differs "
                f"in {name!r}"
            )
        for name, shape in shapes.items():
            checks.shaped(f"velocity[{name!r}]", self.velocity[name], shape)

    def not_closed_on(self, net: Net) -> str | None:
        return None if self.velocity is None else "the velocity at the start is not zero"

    def stepper(self, params: PyTree, key: int) -> DescentStepper:
        return DescentStepper(
            key=counter_rng.seed(key),
            noise=self.noise,
            weight_decay=or_none(self.weight_decay),
            momentum=or_none(self.momentum),
            nesterov=self.nesterov,
            velocity=self.velocity,
        )


def _velocity(value: Mapping[str, ArrayLike] | None) -> dict[str, np.ndarray] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"velocity must be a dict like the parameters, got {value!r:.80}")
    return {name: checks.constant_array(f"velocity[{name!r}]", v) for name, v in value.items()}
