"""Lion: the sign of an average of gradients."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..noise import Noise
from ..numerics import counter_rng
from ..numerics.types import Number, PyTree
from ._schedules import Schedule
from ._steps import (
    Optimiser,
    StepsStepper,
    averaged,
    decay_rate,
    learning_rate,
    noise_law,
    or_none,
    shrunk,
    two_betas,
)
from .protocol import System


class LionStepper(StepsStepper):
    """p ← (1 − lr·λ)p − lr·sign(β₁m + (1 − β₁)g), then m ← β₂m + (1 − β₂)g.

    Attributes:
        betas: β₁ and β₂.
        decay: λ.
    """

    betas: Any
    decay: Any

    def begin(self, system: System, params: PyTree) -> PyTree:
        return jax.tree.map(jnp.zeros_like, params)

    def move(self, params: PyTree, grads: PyTree, memory: PyTree, lr: Number) -> tuple[Any, Any]:
        seen = averaged(memory, grads, self.betas[0])
        kept = shrunk(params, lr, self.decay)
        moved = jax.tree.map(lambda p, m: p - lr * jnp.sign(m), kept, seen)
        return moved, averaged(memory, grads, self.betas[1])


class Lion(Optimiser):
    """Lion: p ← (1 − lr·λ)p − lr·sign(β₁m + (1 − β₁)g), then m ← β₂m + (1 − β₂)g.

    Args:
        lr: learning rate: a number, or any function of the step.
        betas: β₁ and β₂, each in [0, 1).
        weight_decay: λ of decoupled decay.
        noise: what each step sees of the data; all of it if None.
    """

    not_closed: ClassVar[str | None] = "Lion is not invariant under rotations"
    follows_slope: ClassVar[bool] = False
    lr: Any
    betas: Any
    weight_decay: Any
    noise: Noise | None

    def __init__(
        self,
        lr: float | Schedule,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        noise: Noise | None = None,
    ):
        self.lr = learning_rate(lr)
        self.betas = np.asarray(two_betas(betas))
        self.weight_decay = decay_rate(weight_decay, lr, True)
        self.noise = noise_law(noise)

    def not_closed_on(self, net: Net) -> str | None:
        return self.not_closed

    def stepper(self, params: PyTree, key: int) -> LionStepper:
        return LionStepper(
            key=counter_rng.seed(key),
            noise=self.noise,
            weight_decay=None,
            betas=self.betas,
            decay=or_none(self.weight_decay),
        )
