"""Gradient flow by the clock of its loss: to times such as e^300, in a few hundred steps.

Where the loss falls for ever, L ≈ 1/(γ²t), all that still happens does so on the scale of log t.
With τ = log(1 + t), ℓ = −log L and φ = −log L as a function of the parameters,

    dp/dτ = e^{τ − ℓ} ∇φ,    dℓ/dτ = e^{τ − ℓ} ‖∇φ‖²,

and e^{τ − ℓ} stays of order one. ∇φ is a mean of gradients of margins, taken in logarithms:
nothing under- or overflows. ℓ is carried along, and at any time must be −log L of the parameters:
what is left of that is the error of the integrator.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..numerics.types import Number, PyTree
from ..problems import Classification, Problem
from ._tolerance import Tolerance, first_size, next_size
from .protocol import CONVERGED, FAILED, RUNNING, State, Stepper, System

STAGES = 13  # new evaluations of the field in a step of Dopri8
CRAWL_STEPS = 5_000
CRAWL_GROWTH = 1e-3


class LossClockState(eqx.Module):
    """The integrator between two steps.

    Attributes:
        dt: the size of the next step, in τ.
        solver: the state of the Runge-Kutta method.
        taken: steps so far, rejected ones included.
        log_loss: −ℓ, as it was integrated.
        mark_taken: steps at the last look at how fast τ grows.
        mark_clock: τ then.
    """

    dt: Any
    solver: Any
    taken: Any
    log_loss: Any
    mark_taken: Any
    mark_clock: Any


class LossClockStepper(Stepper):
    """The flow above, in steps that end on the values of τ asked for."""

    tolerance: Tolerance
    weight_decay: Any

    def begin(self, system: System, params: PyTree) -> LossClockState:
        from ..numerics.adaptive_ode import begin_solver, usual_promotion

        zero = jnp.asarray(0.0)
        start = (params, zero, jnp.asarray(system.problem.log_net_loss(system.net, params)))
        with usual_promotion():
            dt = first_size(
                lambda p: self._field(system, (p, *start[1:]))[0],
                self.tolerance,
                system.net,
                params,
            )
            solver = begin_solver(lambda y: self._field(system, y), zero, dt, start)
        count = jnp.asarray(0)
        return LossClockState(dt, solver, count, start[2], count, zero)

    def advance(
        self,
        system: System,
        state: State,
        start: PyTree,
        target: Number,
        drive: Number,
        goal: Number,
    ) -> State:
        def unfinished(state: State) -> jax.Array:
            budget = state.memory.taken < drive
            return (state.clock < target) & (state.code == RUNNING) & budget

        return jax.lax.while_loop(
            unfinished, lambda state: self._step(system, state, target, goal), state
        )

    def _field(self, system: System, y: PyTree) -> PyTree:
        params, tau, _ = y
        log_loss, slope = jax.value_and_grad(
            lambda p: jnp.asarray(system.problem.log_net_loss(system.net, p))
        )(params)
        pace = jnp.exp(tau + log_loss)
        squares = [jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(slope)]
        ahead = jax.tree.map(lambda leaf: -pace * leaf, slope)
        return ahead, jnp.ones_like(tau), -pace * sum(squares[1:], squares[0])

    def _step(self, system: System, state: State, target, goal) -> State:
        from ..numerics.adaptive_ode import ORDER, solver_step, usual_promotion

        memory = state.memory
        t0 = state.clock
        t1 = jnp.minimum(t0 + memory.dt, target)
        y = (state.params, t0, memory.log_loss)
        with usual_promotion():
            new, error, solver = solver_step(
                lambda y: self._field(system, y), t0, t1, y, memory.solver
            )
            ratio = self.tolerance.ratio(system.net, state.params, new[0], error[0])
        allowed = self.tolerance.rtol * (1 + jnp.abs(memory.log_loss))
        of_loss = jnp.where(jnp.isfinite(error[2]), jnp.abs(error[2]) / allowed, jnp.inf)
        ratio = jnp.maximum(ratio, of_loss)
        keep, size = next_size(t1 - t0, ratio, ORDER)
        # A step cut short by a save says little about the next one.
        dt = jnp.where(keep & (t1 == target), jnp.maximum(size, memory.dt), size)
        params = _where(keep, new[0], state.params)
        clock = jnp.where(keep, t1, t0)
        taken = memory.taken + 1
        crawls = taken - memory.mark_taken >= CRAWL_STEPS
        slow = crawls & (clock < (1 + CRAWL_GROWTH) * memory.mark_clock)
        failed = slow | ~(dt > 1e-14 * clock)  # NaN, too
        loss = jnp.exp(jnp.asarray(system.problem.log_net_loss(system.net, params)))
        code = jnp.where(failed, FAILED, RUNNING)
        code = jnp.where(loss <= goal, CONVERGED, code).astype(state.code.dtype)
        moved = LossClockState(
            dt,
            _where(keep, solver, memory.solver),
            taken,
            jnp.where(keep, new[2], memory.log_loss),
            jnp.where(crawls, taken, memory.mark_taken),
            jnp.where(crawls, clock, memory.mark_clock),
        )
        passed = jnp.exp(clock) * -jnp.expm1(t0 - clock)  # of the time t itself
        slopes = [system.add_slope(state.slopes, p, passed) for p in (state.params, params)]
        slopes = jax.tree.map(jnp.maximum, *slopes)  # None stays None
        return State(params, state.sums, clock, moved, code, slopes)


def need_margins(problem: Problem, net: Net, weight_decay: float) -> None:
    """Refuse problems whose loss does not fall for ever, and so makes no clock."""
    if not isinstance(problem, Classification):
        raise ValueError(
            'clock="loss" needs a loss that falls for ever, that of gb.Classification, got '
            f"{type(problem).__name__}"
        )
    if weight_decay != 0:
        raise ValueError(
            'weight_decay must be 0 with clock="loss": the loss then stops falling, got '
            f"{float(weight_decay):g}"
        )


def account_of(system: System, state: State) -> dict[str, float]:
    """How often the gradient was taken, and how far the two logarithms of the loss are apart."""
    log_loss = system.problem.log_net_loss(system.net, state.params)
    apart = abs(float(log_loss) - float(state.memory.log_loss))
    return {"evaluations": int(state.memory.taken) * STAGES, "clock_error": apart}


def log_time(tau: np.ndarray) -> np.ndarray:
    """The logarithm of t for τ = log(1 + t)."""
    tau = np.asarray(tau, float)
    with np.errstate(divide="ignore"):
        return np.where(tau > 0, tau + np.log(-np.expm1(-tau)), -np.inf)


def clock_of(log_time: float) -> float:
    """The way back: τ = log(1 + t) for log t."""
    return float(np.logaddexp(0.0, log_time))


def _where(keep, new, old) -> PyTree:
    return jax.tree.map(lambda n, o: jnp.where(keep, n, o), new, old)
