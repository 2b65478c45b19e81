"""Steepest descent in a geometry: sign descent, spectral descent, coordinate descent."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..geometry import L2, Geometry, GeometryLike, Product, as_geometry
from ..nets import Deep, Net, TwoLayer
from ..noise import Noise
from ..numerics import checks, counter_rng
from ..numerics.types import Number, PyTree
from ..problems import Problem
from ._gradient import decayed
from ._schedules import Schedule
from ._steps import (
    MomentumStepper,
    Optimiser,
    decay_rate,
    learning_rate,
    noise_law,
    objective_decay,
    or_none,
    shrunk,
)


class SteepestStepper(MomentumStepper):
    """p ← (1 − lr·λ)p − lr·s(v) with v ← βv + g and s the steepest direction.

    Attributes:
        decay: λ of decoupled decay.
        geometry: in which s is steepest.
        normalised: is s a unit step? Else it is multiplied by the dual norm of v.
        names: of the user's parameters; others, which a reduced run adds, have no gradient.
    """

    decay: Any
    geometry: Geometry
    normalised: bool = eqx.field(static=True)
    names: tuple[str, ...] | None = eqx.field(static=True)

    def move(self, params: PyTree, grads: PyTree, memory: PyTree, lr: Number) -> tuple[Any, Any]:
        seen = decayed(grads, params, self.weight_decay)
        if self.momentum is not None:
            seen = memory = jax.tree.map(lambda v, g: self.momentum * v + g, memory, seen)
        if self.names is not None:
            seen = {name: seen[name] for name in self.names}
        step = self.geometry.steepest(seen)
        size = lr if self.normalised else lr * self.geometry.dual_norm(seen)
        kept = shrunk(params, lr, self.decay)
        if self.names is None:
            return jax.tree.map(lambda p, s: p - size * s, kept, step), memory
        return kept | {name: kept[name] - size * step[name] for name in self.names}, memory


class Steepest(Optimiser):
    """Steepest descent in a norm: p ← (1 − lr·λ)p − lr·s(v) with v ← βv + g.

    s is the steepest unit step of all parameters together: their signs for `gb.geometry.Linf`
    (sign descent, with momentum Signum), UVᵀ of every layer for
    `gb.geometry.Product(gb.geometry.Spectral)`, one coordinate for `gb.geometry.L1`.

    Args:
        lr: learning rate: a number, or any function of the step.
        geometry: one of `gb.geometry`.
        momentum: β, in [0, 1).
        weight_decay: λ, as torch counts it.
        decoupled: does decay act on the parameters, not through the gradient? If not, the
            gradient is that of L + (λ/2)‖params‖².
        normalised: are steps of size lr in the norm? If not, they are of lr times the dual norm of
            v; in ℓ2 this is gradient descent.
        noise: what each step sees of the data; all of it if None.
    """

    lr: Any
    geometry: Geometry
    momentum: Any
    weight_decay: Any
    decoupled: bool = eqx.field(static=True)
    normalised: bool = eqx.field(static=True)
    noise: Noise | None

    def __init__(
        self,
        lr: float | Schedule,
        geometry: GeometryLike,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        decoupled: bool = True,
        normalised: bool = True,
        noise: Noise | None = None,
    ):
        self.lr = learning_rate(lr)
        self.geometry = as_geometry("geometry", geometry)
        self.momentum = np.asarray(checks.number("momentum", momentum, at_least=0, below=1))
        self.decoupled = checks.boolean("decoupled", decoupled)
        self.weight_decay = decay_rate(weight_decay, lr, self.decoupled)
        self.normalised = checks.boolean("normalised", normalised)
        self.noise = noise_law(noise)

    @property
    def follows_slope(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Only where a step is proportional to the gradient."""
        return isinstance(self.geometry, L2) and not self.normalised

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        super().check(problem, net, limit)
        shapes = net.shapes()
        if shapes is not None:  # the geometry says what it cannot take
            self.geometry.steepest({name: np.zeros(shape) for name, shape in shapes.items()})

    def not_closed_on(self, net: Net) -> str | None:
        name = type(self.geometry).__name__
        if not self.geometry.rotates:
            return f"steepest descent in {name} is not invariant under rotations"
        if isinstance(self.geometry, L2) or isinstance(net, (TwoLayer, Deep)):
            return None
        return f"{name} takes the parameters of {type(net).__name__}, which are not its factors"

    def stepper(self, params: PyTree, key: int) -> SteepestStepper:
        return SteepestStepper(
            key=counter_rng.seed(key),
            noise=self.noise,
            weight_decay=objective_decay(self.weight_decay, self.decoupled),
            momentum=or_none(self.momentum),
            decay=or_none(self.weight_decay) if self.decoupled else None,
            geometry=self.geometry,
            normalised=self.normalised,
            names=tuple(params) if isinstance(self.geometry, Product) else None,
        )
