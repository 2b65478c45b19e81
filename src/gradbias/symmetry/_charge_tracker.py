"""Charges along a training loop that people write themselves."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._generators.symmetry import Symmetry
from ..numerics import checks
from ..numerics.types import Number
from ._laws import increment, momentum_increment


class ChargeTracker:
    """Follows charges from gradients alone, by the exact law of a step.

    ```python
    tracker = ChargeTracker(net.symmetries())
    tracker.start(params)
    for _ in range(steps):
        g = gradient(params)
        params = {k: params[k] - lr * g[k] for k in params}
        tracker.update(g, lr)
    tracker.drift  # {name: charge now − charge at the start}
    ```

    Args:
        symmetries: what to follow, by name.

    Attributes:
        charge: the charges now, by name.
        drift: how far they have moved since the start.
    """

    charge: dict[str, Any]
    drift: dict[str, Any]

    def __init__(self, symmetries: Mapping[str, Symmetry]):
        self.symmetries = named(symmetries)
        self.charge = {}
        self.drift = {}
        self._first: dict[str, Any] = {}
        self._cross: dict[str, Any] = {}

    def start(self, params: Mapping[str, Any]) -> None:
        """Begin at these parameters, with no velocity."""
        self._first = {name: s.charge(params) for name, s in self.symmetries.items()}
        self.charge = dict(self._first)
        self.drift = {name: np.zeros_like(c)[()] for name, c in self._first.items()}
        self._cross = dict(self.drift)

    def update(self, gradient: Mapping[str, Any], lr: float, weight_decay: float = 0.0) -> None:
        """After a step θ ← θ − lr·(g + 2γθ).

        Args:
            gradient: g, of the data alone, at the parameters before the step.
            lr: learning rate.
            weight_decay: γ of the objective L + γ‖θ‖² (torch's `weight_decay` is 2γ).
        """
        lr, gamma = self._rates(lr, weight_decay)
        for name, symmetry in self.symmetries.items():
            square = symmetry.form(gradient, gradient)
            self._add(name, increment(self.charge[name], square, lr, gamma))

    def update_momentum(
        self, velocity: Mapping[str, Any], lr: float, momentum: float, weight_decay: float = 0.0
    ) -> None:
        """After a step v ← βv + g + 2γθ, θ ← θ − lr·v.

        Args:
            velocity: the new v, torch's momentum buffer.
            lr: learning rate.
            momentum: β.
            weight_decay: γ of the objective L + γ‖θ‖² (torch's `weight_decay` is 2γ).
        """
        lr, gamma = self._rates(lr, weight_decay)
        beta = checks.number("momentum", momentum, at_least=0, below=1)
        for name, symmetry in self.symmetries.items():
            square = symmetry.form(velocity, velocity)
            cross = self._cross[name]
            change, self._cross[name] = momentum_increment(
                self.charge[name], cross, square, lr, beta, gamma
            )
            self._add(name, change)

    def _rates(self, lr: float, weight_decay: float) -> tuple[float, float]:
        if not self._first and self.symmetries:
            raise ValueError("a ChargeTracker must be told where it starts: call start(params)")
        gamma = checks.number("weight_decay", weight_decay, at_least=0)
        return checks.number("lr", lr, above=0), gamma

    def _add(self, name: str, change: Number) -> None:
        self.drift[name] = self.drift[name] + change
        self.charge[name] = self._first[name] + self.drift[name]


def named(symmetries: Mapping[str, Symmetry]) -> dict[str, Symmetry]:
    """A dict of symmetries, checked."""
    if not isinstance(symmetries, Mapping):
        raise ValueError(
            "symmetries must be a dict by name, such as net.symmetries(), "
            f"got {type(symmetries).__name__} {symmetries!r:.80}"
        )
    for name, symmetry in symmetries.items():
        if not isinstance(name, str) or not isinstance(symmetry, Symmetry):
            raise ValueError(
                "symmetries must map names to symmetries, made by gradbias.symmetry.pair and "
                f"others, got {name!r:.80}: {symmetry!r:.80}"
            )
    return dict(symmetries)
