"""Gradient descent, with or without noise."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import LinearNet, Net
from ..noise import Noise
from ..numerics import checks, counter
from ..problems import Population, Problem
from ._gradient import decayed, gradient
from ._protocol import RUNNING, STATIONARY, Dynamics, State, Stepper, System
from ._schedules import Schedule, elapsed, rates, steps_for

TABLE = 4096  # learning rates handed over at a time when they change from step to step


class Drive(eqx.Module):
    """Learning rates from a first step on; the last one holds for all that follow."""

    start: Any
    rates: Any


class DescentStepper(Stepper):
    """p ← p − lr·v with v ← βv + g; fields at None are left out of the program.

    Attributes:
        key: decides every draw.
        noise: what each step sees.
        momentum: β.
        weight_decay: γ.
        may_rest: is a state that a step does not change one that no later step changes?
    """

    key: Any
    noise: Noise | None
    momentum: Any
    weight_decay: Any
    may_rest: bool = eqx.field(static=True)

    def begin(self, system: System, params) -> Any:
        return None if self.momentum is None else jax.tree.map(jnp.zeros_like, params)

    def advance(self, system: System, state: State, target, drive, goal) -> State:
        last = drive.rates.shape[0] - 1

        def step(k, carry):
            params, sums, velocity = carry
            lr = drive.rates[jnp.minimum(k - drive.start, last)]
            grads = self._gradient(system, params, k)
            sums = system.add(sums, params, grads, lr)
            move = decayed(grads, params, self.weight_decay)
            if self.momentum is not None:
                move = jax.tree.map(lambda v, g: self.momentum * v + g, velocity, move)
                velocity = move
            return jax.tree.map(lambda p, m: p - lr * m, params, move), sums, velocity

        start = (state.params, state.sums, state.memory)
        params, sums, velocity = jax.lax.fori_loop(state.clock, target, step, start)
        code = RUNNING
        if self.may_rest:
            same = jax.tree.map(lambda a, b: jnp.all(a == b), (params, sums, velocity), start)
            rests = (target > state.clock) & jnp.all(jnp.stack(jax.tree.leaves(same)))
            code = jnp.where(rests, STATIONARY, RUNNING)
        return State(params, sums, target, velocity, jnp.asarray(code, state.code.dtype))

    def _gradient(self, system: System, params, step) -> Any:
        if self.noise is None:
            return gradient(system.problem, system.net, params)
        batch = self.noise.batch(system.problem, self.key, step)
        grads = gradient(system.problem, system.net, params, batch)
        added = self.noise.added(self.key, step, params)
        return grads if added is None else jax.tree.map(jnp.add, grads, added)


class Descent(Dynamics):
    """Gradient descent: GD, or SGD with a noise law.

    Momentum as in torch: v ← βv + g, p ← p − lr·v.

    Args:
        lr: learning rate: a number, `gb.dynamics.piecewise({0: .001, 5000: .008})`, or any
            function of the step.
        noise: what each step sees of the data; all of it if None.
        momentum: β, in [0, 1).
        weight_decay: γ of the objective L + γ‖params‖², whose gradient is 2γ·params (torch's
            `weight_decay` is 2γ).
    """

    axis: ClassVar[Literal["step", "time"]] = "step"
    counts_steps: ClassVar[bool] = True
    lr: Any
    noise: Noise | None
    momentum: Any
    weight_decay: Any

    def __init__(
        self,
        lr: float | Schedule,
        noise: Noise | None = None,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ):
        self.lr = lr if callable(lr) else np.asarray(checks.number("lr", lr, above=0))
        if noise is not None and not isinstance(noise, Noise):
            raise ValueError(
                f"noise must be None or a noise law such as gb.Replay, got {noise!r:.80}"
            )
        self.noise = noise
        self.momentum = np.asarray(checks.number("momentum", momentum, at_least=0, below=1))
        self.weight_decay = np.asarray(checks.number("weight_decay", weight_decay, at_least=0))

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        if callable(self.lr):
            rates(self.lr, 0, 1)
        if self.noise is not None:
            self.noise.check(problem, None if limit is None else int(limit))
        elif isinstance(problem, Population) and not isinstance(net, LinearNet):
            raise ValueError(
                f"noise must give fresh samples for {net!r} on Population, got None: exact "
                "expectations are known for linear nets only"
            )

    def stepper(self, params, key: int) -> DescentStepper:
        may_rest = self.noise is None and not callable(self.lr)
        return DescentStepper(
            key=counter.seed(key),
            noise=self.noise,
            momentum=_or_none(self.momentum),
            weight_decay=_or_none(self.weight_decay),
            may_rest=may_rest,
        )

    def in_basis(self, basis: np.ndarray) -> "Descent | None":
        if self.noise is None:
            return self
        noise = self.noise.in_basis(basis)
        if noise is None:
            return None
        return Descent(self.lr, noise, self.momentum, self.weight_decay)  # pyright: ignore[reportArgumentType]

    def drive(self, state: State, calls: int) -> tuple[Drive, float]:
        start = int(state.clock)
        if callable(self.lr):
            table, stop = rates(self.lr, start, start + TABLE), start + min(TABLE, calls)
        else:
            table, stop = self.lr[None], start + calls
        return Drive(np.asarray(start), table), stop

    def time(self, clock: np.ndarray) -> np.ndarray:
        return elapsed(self.lr, clock)

    def clock(self, time: float) -> float:
        return max(1, steps_for(self.lr, time))


def _or_none(value: np.ndarray) -> np.ndarray | None:
    return value if value != 0 else None
