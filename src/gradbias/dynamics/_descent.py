"""Gradient descent, with or without noise."""

from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..noise import DataNoise, Noise
from ..numerics import checks, counter_rng
from ..numerics.types import Integer, Number, PyTree
from ..problems import Problem
from ._gradient import decayed, gradient, need_expectation
from ._schedules import Schedule, elapsed, rates, steps_for
from .protocol import Dynamics, State, Stepper, System

LOOKAHEAD = 20_000  # steps whose learning rates are checked before a run starts
TABLE = 4096  # learning rates handed over at a time when they change from step to step


class Drive(NamedTuple):
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
    """

    key: Any
    noise: Noise | None
    momentum: Any
    weight_decay: Any

    @property
    def remembers(self) -> bool:
        return self.momentum is not None

    def begin(self, system: System, params: PyTree) -> Any:
        return None if self.momentum is None else jax.tree.map(jnp.zeros_like, params)

    def advance(
        self, system: System, state: State, start: PyTree, target: Number, drive: Any, goal: Number
    ) -> State:
        last = drive.rates.shape[0] - 1

        def as_before(thin):
            return jax.tree.map(lambda p, full: p.reshape(full.shape), thin, state.params)

        def step(k, carry):
            thin, sums, velocity, slopes = carry
            params = as_before(thin)
            # One rate for all steps is not looked up at every one of them.
            lr = drive.rates[jnp.minimum(k - drive.start, last) if last else 0]
            grads = self._gradient(system, params, k)
            time = lr if self.momentum is None else lr / (1 - self.momentum)
            slopes = system.add_slope(slopes, params, time)
            sums = system.add(sums, params, grads, lr)
            move = decayed(grads, params, self.weight_decay)
            lr = _after(grads, lr)
            if self.momentum is not None:
                move = jax.tree.map(lambda v, g: self.momentum * v + g, velocity, move)
                velocity = move
            thin = jax.tree.map(lambda p, m: p - lr * _thin(m), thin, move)
            return thin, sums, velocity, slopes

        carry = (jax.tree.map(_thin, state.params), state.sums, state.memory, state.slopes)
        thin, sums, memory, slopes = jax.lax.fori_loop(start, target, step, carry)
        return State(as_before(thin), sums, target, memory, state.code, slopes)

    def batch(self, system: System, step: Integer) -> Any:
        return None if self.noise is None else self.noise.batch(system.problem, self.key, step)

    def _gradient(self, system: System, params, step) -> PyTree:
        grads = gradient(system.problem, system.net, params, self.batch(system, step))
        if self.noise is None:
            return grads
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

    @property
    def may_rest(self) -> bool:
        return self.noise is None and not callable(self.lr)

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        if callable(self.lr):
            rates(self.lr, 0, int(min(LOOKAHEAD, np.inf if limit is None else limit)))
        if self.noise is not None:
            self.noise.check(problem, None if limit is None else int(limit))
        if not isinstance(self.noise, DataNoise):
            need_expectation("Descent without data noise", problem, net)

    def stepper(self, params: PyTree, key: int) -> DescentStepper:
        return DescentStepper(
            key=counter_rng.seed(key),
            noise=self.noise,
            momentum=_or_none(self.momentum),
            weight_decay=_or_none(self.weight_decay),
        )

    def in_basis(self, basis: np.ndarray) -> "Descent | None":
        if self.noise is None:
            return self
        noise = self.noise.in_basis(basis)
        if noise is None:
            return None
        if noise is self.noise:
            return self
        return Descent(self.lr, noise, self.momentum, self.weight_decay)  # pyright: ignore[reportArgumentType]

    def drive(self, clock: float, memory: PyTree, calls: int, limit: float) -> tuple[Drive, float]:
        start = int(clock)
        if not callable(self.lr):
            return Drive(np.asarray(start), self.lr[None]), start + calls
        # A schedule may end with the run: never ask it for more.
        known = rates(self.lr, start, int(min(start + TABLE, max(limit, start + 1))))
        table = np.pad(known, (0, TABLE - len(known)), mode="edge")
        return Drive(np.asarray(start), table), start + min(TABLE, calls)

    def time(self, clock: np.ndarray) -> np.ndarray:
        return elapsed(self.lr, clock)

    def clock(self, time: float) -> float:
        return max(1, steps_for(self.lr, time))


def _thin(layer) -> jax.Array:
    """A column as a vector (jax-level).

    Where members advance side by side, the compiler copies a column at every step before it
    multiplies with it; a vector it takes as it is.
    """
    return layer[:, 0] if layer.ndim == 2 and layer.shape[0] > layer.shape[1] == 1 else layer


def _after(grads, lr) -> jax.Array:
    """The learning rate, but not before the gradient is there (jax-level).

    A layer can be changed in place only when nothing reads it any more. The compiler does not
    order a step so that this is known: it copies all layers at every step instead, which costs as
    much as the products. The gradient of the narrowest layer is the last to be known. 0 · x is
    not folded away; where it is not 0, this step diverges anyway.
    """
    layers = [leaf for leaf in jax.tree.leaves(grads) if leaf.size > 1]
    if not layers:
        return lr
    last = min(layers, key=lambda leaf: leaf.size)
    return lr + 0.0 * last[(0,) * last.ndim]


def _or_none(value: np.ndarray) -> np.ndarray | None:
    return value if value != 0 else None
