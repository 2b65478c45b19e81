"""What every optimiser has: a learning rate, a noise law, and a loop over steps."""

import abc
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..noise import DataNoise, Noise
from ..numerics import checks
from ..numerics.types import Integer, Number, PyTree
from ..problems import Problem
from ._gradient import gradient, need_expectation
from ._schedules import Schedule, elapsed, rates, steps_for
from .protocol import Dynamics, State, Stepper, System

LOOKAHEAD = 20_000  # steps whose learning rates are checked before a run starts
TABLE = 4096  # learning rates handed over at a time when they change from step to step


class Drive(NamedTuple):
    """Learning rates from a first step on; the last one holds for all that follow."""

    start: Any
    rates: Any


class StepsStepper(Stepper):
    """A loop over steps that ask for one gradient each; fields at None are left out of the program.

    Attributes:
        key: decides every draw.
        noise: what each step sees.
        weight_decay: γ of the objective that the steps descend; None if decay is not part of it.
        rho: how far the point is from the parameters at which the gradient is taken, uphill (SAM).
    """

    key: Any
    noise: Noise | None
    weight_decay: Any
    rho: Any = eqx.field(default=None, kw_only=True)

    @abc.abstractmethod
    def move(self, params: PyTree, grads: PyTree, memory: PyTree, lr: Number) -> tuple[Any, Any]:
        """The parameters and the memory after one step (jax-level)."""

    def time_of(self, lr: Number) -> Number:
        """The gradient-flow time of a step (jax-level)."""
        return lr

    def advance(
        self, system: System, state: State, start: PyTree, target: Number, drive: Any, goal: Number
    ) -> State:
        last = drive.rates.shape[0] - 1

        def as_before(thin):
            return jax.tree.map(lambda p, full: p.reshape(full.shape), thin, state.params)

        def step(k, carry):
            thin, sums, memory, slopes = carry
            params = as_before(thin)
            # One rate for all steps is not looked up at every one of them.
            lr = drive.rates[jnp.minimum(k - drive.start, last) if last else 0]
            grads = self.gradient(system, params, k)
            slopes = system.add_slope(slopes, params, self.time_of(lr))
            sums = system.add(sums, params, grads, lr)
            params, memory = self.move(params, grads, memory, _after(grads, lr))
            return jax.tree.map(_thin, params), sums, memory, slopes

        carry = (jax.tree.map(_thin, state.params), state.sums, state.memory, state.slopes)
        thin, sums, memory, slopes = jax.lax.fori_loop(start, target, step, carry)
        return State(as_before(thin), sums, target, memory, state.code, slopes)

    def batch(self, system: System, step: Integer) -> Any:
        return None if self.noise is None else self.noise.batch(system.problem, self.key, step)

    def gradient(self, system: System, params: PyTree, step: Integer) -> PyTree:
        """The gradient that a step follows (jax-level)."""
        batch = self.batch(system, step)
        added = None if self.noise is None else self.noise.added(self.key, step, params)

        def seen(at):
            grads = gradient(system.problem, system.net, at, batch)
            return grads if added is None else jax.tree.map(jnp.add, grads, added)

        grads = seen(params)
        return grads if self.rho is None else seen(_uphill(params, grads, self.rho))


class MomentumStepper(StepsStepper):
    """Steps that remember one array for every parameter, if there is momentum.

    Attributes:
        momentum: β; None for none.
    """

    momentum: Any

    @property
    def remembers(self) -> bool:
        return self.momentum is not None

    def begin(self, system: System, params: PyTree) -> PyTree:
        return jax.tree.map(jnp.zeros_like, params) if self.remembers else None


class Optimiser(Dynamics):
    """Dynamics that take steps of a given size along a (stochastic) gradient.

    Attributes:
        lr: learning rate: a number, or a function of the step.
        noise: what each step sees of the data; all of it if None.
    """

    axis: ClassVar[Literal["step", "time"]] = "step"
    counts_steps: ClassVar[bool] = True
    lr: eqx.AbstractVar[Any]
    noise: eqx.AbstractVar[Noise | None]

    @abc.abstractmethod
    def stepper(self, params: PyTree, key: int) -> StepsStepper: ...

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        if callable(self.lr):
            rates(self.lr, 0, int(min(LOOKAHEAD, np.inf if limit is None else limit)))
        if self.noise is not None:
            self.noise.check(problem, None if limit is None else int(limit))
        if not isinstance(self.noise, DataNoise):
            need_expectation(f"{type(self).__name__} without data noise", problem, net)

    def in_basis(self, basis: np.ndarray) -> "Optimiser | None":
        if self.not_closed is not None:
            return None
        if self.noise is None:
            return self
        noise = self.noise.in_basis(basis)
        if noise is None or noise is self.noise:
            return None if noise is None else self
        return self.with_noise(noise)

    def with_noise(self, noise: Noise) -> "Optimiser":
        """The same steps with another noise law."""
        return eqx.tree_at(lambda steps: steps.noise, self, noise)

    def drive(self, clock: float, memory: PyTree, calls: int, limit: float) -> tuple[Drive, float]:
        start = int(clock)
        if not callable(self.lr):
            return Drive(np.asarray(start), np.asarray(self.lr)[None]), start + calls
        # A schedule may end with the run: never ask it for more.
        known = rates(self.lr, start, int(min(start + TABLE, max(limit, start + 1))))
        table = np.pad(known, (0, TABLE - len(known)), mode="edge")
        return Drive(np.asarray(start), table), start + min(TABLE, calls)

    def time(self, clock: np.ndarray) -> np.ndarray:
        return elapsed(self.lr, clock)

    def clock(self, time: float) -> float:
        return max(1, steps_for(self.lr, time))


def learning_rate(lr: object) -> "np.ndarray | Schedule":
    """A learning rate or a schedule, checked."""
    return lr if callable(lr) else np.asarray(checks.number("lr", lr, above=0))


def noise_law(noise: object) -> Noise | None:
    """A noise law or None, checked."""
    if noise is not None and not isinstance(noise, Noise):
        raise ValueError(f"noise must be None or a noise law such as gb.Replay, got {noise!r:.80}")
    return noise


def decay_rate(weight_decay: object, lr: float | Schedule, decoupled: bool) -> np.ndarray:
    """λ, checked: a step that takes more away than there is changes signs."""
    decay = checks.number("weight_decay", weight_decay, at_least=0)
    if decoupled and not callable(lr) and float(lr) * decay > 1:
        raise ValueError(
            f"weight_decay must be at most 1/lr = {1 / float(lr):g}, got {decay:g}: a step "
            "multiplies the parameters by 1 − lr·weight_decay, which would be negative"
        )
    return np.asarray(decay)


def two_betas(betas: object) -> tuple[float, float]:
    """β₁ and β₂, checked."""
    if not isinstance(betas, (tuple, list, np.ndarray)) or len(betas) != 2:
        raise ValueError(f"betas must be two numbers (β₁, β₂), got {betas!r:.80}")
    first, second = (
        checks.number(f"betas[{i}]", beta, at_least=0, below=1) for i, beta in enumerate(betas)
    )
    return first, second


def or_none(value: np.ndarray) -> np.ndarray | None:
    """None for zero: what is not there is left out of the program."""
    return value if value != 0 else None


def objective_decay(weight_decay: np.ndarray, decoupled: bool) -> np.ndarray | None:
    """γ of L + γ‖params‖² for λ as torch counts it; None if decay is decoupled, or zero."""
    return None if decoupled else or_none(np.asarray(weight_decay / 2))


def shrunk(params: PyTree, lr: Number, weight_decay: "Number | None") -> PyTree:
    """Decoupled decay, (1 − lr·λ)·params; None stands for no decay (jax-level)."""
    if weight_decay is None:
        return params
    return jax.tree.map(lambda p: p * (1 - lr * weight_decay), params)


def averaged(old: PyTree, new: PyTree, beta: Number) -> PyTree:
    """β·old + (1 − β)·new (jax-level)."""
    return jax.tree.map(lambda a, b: beta * a + (1 - beta) * b, old, new)


def _uphill(params, grads, rho) -> PyTree:
    """Params + ρ·grads/‖grads‖, a joint norm of all parameters (jax-level)."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(g), initial=0.0) for g in jax.tree.leaves(grads)]))
    unit = jax.tree.map(lambda g: g / jnp.where(largest > 0, largest, 1.0), grads)
    length = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(unit)))
    scale = rho / jnp.where(length > 0, length, 1.0)
    return jax.tree.map(lambda p, g: p + scale * g, params, unit)


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
