"""The stochastic differential equation of SGD, by the method of Euler and Maruyama."""

from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..noise import Noise, Replay, Spread
from ..numerics import checks, counter_rng
from ..numerics.types import Array, Integer, Number, PyTree
from ..problems import Problem
from ._gradient import decayed, gradient, need_expectation
from .protocol import Dynamics, State, Stepper, System


class DiffusionStepper(Stepper):
    """p ← p − dt·(∇L + 2γp) + √(lr·dt)·σz, with z standard normal.

    One vector z, shared by all parameters: its size is that of the data, not of the net.
    """

    key: Any
    noise: Noise
    lr: Any
    dt: Any
    weight_decay: Any

    def begin(self, system: System, params: PyTree) -> Any:
        """A square root of the covariance; it does not change along the run."""
        return self.noise.spread(system.problem)

    def batch(self, system: System, step: Integer) -> Any:
        return self.noise.batch(system.problem, self.key, step)

    def advance(
        self, system: System, state: State, start: PyTree, target: Number, drive: Any, goal: Number
    ) -> State:
        spread = state.memory
        size = spread.size(system.problem, system.net, state.params)

        def step(k, carry):
            params, sums, slopes = carry
            slopes = system.add_slope(slopes, params, self.dt)
            z = counter_rng.normal(counter_rng.stream(self.key, k, "Diffusion"), size)
            return *self.step(system, spread, params, sums, z), slopes

        carry = (state.params, state.sums, state.slopes)
        params, sums, slopes = jax.lax.fori_loop(start, target, step, carry)
        return State(params, sums, target, spread, state.code, slopes)

    def step(
        self, system: System, spread: Spread, params: PyTree, sums: PyTree, z: Array
    ) -> tuple[Any, dict[str, Any]]:
        """One step along given normal numbers: the parameters and sums after it (jax-level)."""
        kick = spread.kick(system.problem, system.net, params, z)
        drift = gradient(system.problem, system.net, params)
        # The step as descent sees it: −dt times this gradient.
        scale = jnp.sqrt(self.lr / self.dt)
        grads = jax.tree.map(lambda g, s: g - scale * s, drift, kick)
        sums = system.add(sums, params, grads, self.dt)
        move = decayed(grads, params, self.weight_decay)
        return jax.tree.map(lambda p, m: p - self.dt * m, params, move), sums


class Diffusion(Dynamics):
    r"""The SDE of SGD, $dp = -\nabla L\,dt + \sqrt{lr}\,\sigma\,dW$ with $\Sigma = \sigma\sigma^T$.

    Time is that of gradient flow: k steps of SGD are t = k·lr. Σ is the covariance of one
    stochastic gradient, `noise.covariance`, all parameters driven by one Brownian motion.

    Args:
        lr: the learning rate of the SGD that is modelled.
        noise: its noise law.
        dt: the step of the integrator (Euler–Maruyama); lr / 10 or less shows the SDE itself.
        weight_decay: γ of the objective L + γ‖params‖².
    """

    axis: ClassVar[Literal["step", "time"]] = "time"
    counts_steps: ClassVar[bool] = True
    lr: Any
    noise: Noise
    dt: Any
    weight_decay: Any

    def __init__(self, lr: float, noise: Noise, dt: float, weight_decay: float = 0.0):
        self.lr = np.asarray(checks.number("lr", lr, above=0))
        if not isinstance(noise, Noise) or isinstance(noise, Replay):
            raise ValueError(
                "noise must be a law with a covariance, such as gb.Minibatch(batch_size), "
                f"got {noise!r:.80}"
            )
        self.noise = noise
        self.dt = np.asarray(checks.number("dt", dt, above=0))
        self.weight_decay = np.asarray(checks.number("weight_decay", weight_decay, at_least=0))

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        need_expectation("Diffusion", problem, net)
        self.noise.check(problem, None if limit is None else int(limit))

    def stepper(self, params: PyTree, key: int) -> DiffusionStepper:
        decay = self.weight_decay if self.weight_decay != 0 else None
        return DiffusionStepper(counter_rng.seed(key), self.noise, self.lr, self.dt, decay)

    def in_basis(self, basis: np.ndarray) -> "Diffusion | None":
        noise = self.noise.in_basis(basis)
        if noise is None:
            return None
        return Diffusion(float(self.lr), noise, float(self.dt), float(self.weight_decay))

    def drive(self, clock: float, memory: PyTree, calls: int, limit: float) -> tuple[Any, float]:
        return None, clock + calls

    def time(self, clock: np.ndarray) -> np.ndarray:
        return np.asarray(clock) * float(self.dt)

    def clock(self, time: float) -> float:
        return max(1, int(np.ceil(time / float(self.dt) * (1 - 1e-12))))
