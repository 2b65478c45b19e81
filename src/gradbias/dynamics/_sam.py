"""Sharpness-aware minimisation: the gradient of a point uphill."""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from ..nets import Net
from ..noise import Noise
from ..numerics import checks
from ..numerics.types import PyTree
from ..problems import Problem
from ._steps import Optimiser, StepsStepper


class SAM(Optimiser):
    """Optimiser of another optimiser along ∇L(p + ρ·g/‖g‖), with g = ∇L(p) on the same batch.

    ‖g‖ is the joint norm of all parameters; where it is zero, the step is the optimiser's own.

    Args:
        rho: ρ.
        base: whose steps are taken, such as `gb.Descent(0.01)` or `gb.Adam(1e-3)`; its noise law
            is that of both gradients.
    """

    follows_slope: ClassVar[bool] = False
    rho: Any
    base: Optimiser
    # Those of the optimiser.
    lr: Any = eqx.field(repr=False)
    noise: Noise | None = eqx.field(repr=False)
    momentum: Any = eqx.field(repr=False)
    weight_decay: Any = eqx.field(repr=False)

    def __init__(self, rho: float, base: Optimiser):
        self.rho = np.asarray(checks.number("rho", rho, above=0))
        if not isinstance(base, Optimiser) or isinstance(base, SAM):
            raise ValueError(
                f"base must be an optimiser such as gb.Descent(0.01), got {base!r:.80}"
            )
        self.base = base
        self.lr = base.lr
        self.noise = base.noise
        self.momentum = getattr(base, "momentum", np.asarray(0.0))
        self.weight_decay = base.weight_decay

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        self.base.check(problem, net, limit)

    def not_closed_on(self, net: Net) -> str | None:
        return self.base.not_closed_on(net)

    def with_noise(self, noise: Noise) -> "SAM":
        return SAM(float(self.rho), self.base.with_noise(noise))

    def stepper(self, params: PyTree, key: int) -> StepsStepper:
        stepper = self.base.stepper(params, key)
        return eqx.tree_at(lambda s: s.rho, stepper, self.rho, is_leaf=lambda leaf: leaf is None)
