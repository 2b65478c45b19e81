"""Adam and AdamW."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..noise import Noise
from ..numerics import checks, counter_rng
from ..numerics.types import Number, PyTree
from ._gradient import decayed
from ._schedules import Schedule
from ._steps import (
    Optimiser,
    StepsStepper,
    averaged,
    decay_rate,
    learning_rate,
    noise_law,
    objective_decay,
    or_none,
    shrunk,
    two_betas,
)
from .protocol import System


class AdamMemory(NamedTuple):
    """What Adam remembers.

    Attributes:
        first: the average of gradients.
        second: the average of their squares.
        powers: β₁ᵏ and β₂ᵏ, for the correction of both averages' start at zero.
    """

    first: Any
    second: Any
    powers: Any


class AdamStepper(StepsStepper):
    """p ← (1 − lr·λ)p − lr·m̂/(√v̂ + ε), with averages m̂ and v̂ of gradients and their squares.

    Attributes:
        betas: β₁ and β₂.
        eps: ε.
        decay: λ of decoupled decay.
        eps_inside: is it √(v̂ + ε)?
    """

    betas: Any
    eps: Any
    decay: Any
    eps_inside: bool = eqx.field(static=True)

    def begin(self, system: System, params: PyTree) -> PyTree:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return AdamMemory(zeros, zeros, jnp.ones(2))

    def move(self, params: PyTree, grads: PyTree, memory: PyTree, lr: Number) -> tuple[Any, Any]:
        grads = decayed(grads, params, self.weight_decay)
        beta1 = self.betas[0]
        beta2 = self.betas[1]
        first = averaged(memory.first, grads, beta1)
        second = averaged(memory.second, jax.tree.map(lambda g: g * g, grads), beta2)
        powers = memory.powers * self.betas
        rate = lr / (1 - powers[0])
        start = jnp.sqrt(1 - powers[1])

        def stepped(p, m, v):
            if self.eps_inside:
                size = jnp.sqrt(v / (start * start) + self.eps)
            else:
                size = jnp.sqrt(v) / start + self.eps
            # Where no gradient was ever seen and ε = 0, nothing moves: sign(0) = 0.
            return p - rate * (m / jnp.where(size > 0, size, 1.0))

        moved = jax.tree.map(stepped, shrunk(params, lr, self.decay), first, second)
        return moved, AdamMemory(first, second, powers)


class Adam(Optimiser):
    """Adam, as torch.optim.AdamW takes its steps; with decoupled=False as torch.optim.Adam.

    m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², p ← (1 − lr·λ)p − lr·m̂/(√v̂ + ε), where m̂ and v̂
    are m/(1 − β₁ᵏ) and v/(1 − β₂ᵏ). With ε = 0 a coordinate whose gradients were all zero stays;
    so does one whose gradients have squares beyond float64 (1e-154 and less, 1e154 and more).

    Args:
        lr: learning rate: a number, or any function of the step.
        betas: β₁ and β₂, each in [0, 1).
        eps: ε.
        weight_decay: λ, as torch counts it.
        decoupled: does decay act on the parameters, not through the gradient? If not, the
            gradient is that of L + (λ/2)‖params‖².
        noise: what each step sees of the data; all of it if None.
        eps_inside: √(v̂ + ε) instead of √v̂ + ε.
    """

    not_closed: ClassVar[str | None] = "Adam is not invariant under rotations"
    follows_slope: ClassVar[bool] = False
    lr: Any
    betas: Any
    eps: Any
    weight_decay: Any
    decoupled: bool = eqx.field(static=True)
    noise: Noise | None
    eps_inside: bool = eqx.field(static=True)

    def __init__(
        self,
        lr: float | Schedule,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled: bool = True,
        noise: Noise | None = None,
        eps_inside: bool = False,
    ):
        self.lr = learning_rate(lr)
        self.betas = np.asarray(two_betas(betas))
        self.eps = np.asarray(checks.number("eps", eps, at_least=0))
        self.decoupled = checks.boolean("decoupled", decoupled)
        self.weight_decay = decay_rate(weight_decay, lr, self.decoupled)
        self.noise = noise_law(noise)
        self.eps_inside = checks.boolean("eps_inside", eps_inside)

    def not_closed_on(self, net: Net) -> str | None:
        return self.not_closed

    def stepper(self, params: PyTree, key: int) -> AdamStepper:
        return AdamStepper(
            key=counter_rng.seed(key),
            noise=self.noise,
            weight_decay=objective_decay(self.weight_decay, self.decoupled),
            betas=self.betas,
            eps=self.eps,
            decay=or_none(self.weight_decay) if self.decoupled else None,
            eps_inside=self.eps_inside,
        )
