"""Gradient flow, by an adaptive Runge-Kutta method of order eight."""

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..numerics import checks
from ..problems import Problem
from ._gradient import decayed, gradient, need_expectation
from ._protocol import CONVERGED, FAILED, FLOOR, RUNNING, Dynamics, State, Stepper, System
from ._tolerance import Tolerance, first_size, next_size

if TYPE_CHECKING:
    import diffrax

ORDER = 8  # of Dopri8's error estimate, which decides how fast steps grow
# A run whose time grows by less than this in so many steps would need millions to double it: the
# problem is stiff, or its loss has kinks on which an adaptive method grinds.
CRAWL_STEPS, CRAWL_GROWTH = 5_000, 1e-3
PATIENCE = 100  # accepted steps without a lower objective before a run may be at its floor


@functools.cache
def _solver() -> "diffrax.Dopri8":
    """The method; diffrax takes half a second to import, and most runs have no flow."""
    import diffrax

    return diffrax.Dopri8()


class Memory(eqx.Module):
    """The integrator between two steps, and what it takes to see that it no longer gets on.

    Attributes:
        dt: the size of the next step.
        solver: the state of the Runge-Kutta method.
        taken: steps so far, rejected ones included.
        best: the lowest objective seen.
        since: accepted steps since then.
        anchor: the parameters there.
        mark_taken: steps at the last look at how fast time passes.
        mark_clock: the time then.
    """

    dt: Any
    solver: Any
    taken: Any
    best: Any
    since: Any
    anchor: Any
    mark_taken: Any
    mark_clock: Any


class FlowStepper(Stepper):
    """dp/dt = −∇(L + γ‖p‖²), in steps that end on the times asked for."""

    tolerance: Tolerance
    weight_decay: Any

    def begin(self, system: System, params) -> Memory:
        zero, method = jnp.asarray(0.0), _solver()
        with _usual_promotion():
            dt = first_size(lambda p: self._field(system, p), self.tolerance, system.net, params)
            solver = method.init(self._term(system), zero, dt, params, None)
        count = jnp.asarray(0)
        best = jnp.asarray(jnp.inf)
        return Memory(dt, solver, count, best, count, params, count, zero)

    def advance(self, system: System, state: State, start, target, drive, goal) -> State:
        def unfinished(state):
            budget = state.memory.taken < drive
            return (state.clock < target) & (state.code == RUNNING) & budget

        def step(state):
            return self._step(system, state, target, goal)

        return jax.lax.while_loop(unfinished, step, state)

    def _field(self, system: System, params) -> Any:
        grads = gradient(system.problem, system.net, params)
        return jax.tree.map(jnp.negative, decayed(grads, params, self.weight_decay))

    def _term(self, system: System) -> "diffrax.ODETerm":
        import diffrax

        return diffrax.ODETerm(lambda t, params, args: self._field(system, params))

    def _step(self, system: System, state: State, target, goal) -> State:
        memory = state.memory
        t0, t1 = state.clock, jnp.minimum(state.clock + memory.dt, target)
        with _usual_promotion():
            candidate, error, _, solver, _ = _solver().step(
                self._term(system), t0, t1, state.params, None, memory.solver, False
            )
            ratio = self.tolerance.ratio(system.net, state.params, candidate, error)
        keep, size = next_size(t1 - t0, ratio, ORDER)
        # A step cut short by a save time says little about the next one.
        dt = jnp.where(keep & (t1 == target), jnp.maximum(size, memory.dt), size)
        moved = eqx.tree_at(
            lambda m: (m.dt, m.solver, m.taken),
            memory,
            (dt, _where(keep, solver, memory.solver), memory.taken + 1),
            is_leaf=lambda leaf: leaf is None,
        )
        params = _where(keep, candidate, state.params)
        new = State(params, state.sums, jnp.where(keep, t1, t0), moved, state.code)
        return self._judge(system, new, keep, goal)

    def _judge(self, system: System, state: State, keep, goal) -> State:
        """Has it converged, got stuck at the integrator's floor, or failed?"""
        value, memory = system.gap(system.problem, system.net, state.params), state.memory
        objective = value
        if self.weight_decay is not None:
            squares = [jnp.sum(p * p) for p in jax.tree.leaves(state.params)]
            objective = value + self.weight_decay * sum(squares[1:], squares[0])
        falls = objective < memory.best
        since = jnp.where(falls, 0, memory.since + keep.astype(memory.since.dtype))
        anchor = _where(falls, state.params, memory.anchor)
        moved = self.tolerance.distance(state.params, anchor)
        floor = (since >= PATIENCE) & (moved < 1e3)
        crawls = memory.taken - memory.mark_taken >= CRAWL_STEPS
        slow = crawls & (state.clock < (1 + CRAWL_GROWTH) * memory.mark_clock)
        failed = slow | ~(memory.dt > 1e-14 * state.clock)  # NaN, too
        code = jnp.where(floor, FLOOR, jnp.where(failed, FAILED, RUNNING))
        code = jnp.where(value <= goal, CONVERGED, code)
        best = jnp.where(falls, objective, memory.best)
        mark_taken = jnp.where(crawls, memory.taken, memory.mark_taken)
        mark_clock = jnp.where(crawls, state.clock, memory.mark_clock)
        memory = eqx.tree_at(
            lambda m: (m.best, m.since, m.anchor, m.mark_taken, m.mark_clock),
            memory,
            (best, since, anchor, mark_taken, mark_clock),
        )
        code = code.astype(state.code.dtype)
        return State(state.params, state.sums, state.clock, memory, code)


class Flow(Dynamics):
    """Gradient flow, dp/dt = −∇L, integrated by diffrax's Dopri8.

    Args:
        rtol: relative tolerance of a step.
        atol: absolute tolerance; None takes 1e-11 of the smallest non-zero layer (its root mean
            square) at the start, and of each hidden unit as it grows: a unit of 1e-12 beside
            others of order one is learned at the right time.
        weight_decay: γ of the objective L + γ‖params‖².
    """

    axis: ClassVar[Literal["step", "time"]] = "time"
    counts_steps: ClassVar[bool] = False
    rtol: Any
    atol: Any
    weight_decay: Any

    def __init__(self, rtol: float = 1e-10, atol: float | None = None, weight_decay: float = 0.0):
        _solver()  # here, and not under the settings in which a run is traced
        self.rtol = np.asarray(checks.number("rtol", rtol, above=0, below=1))
        self.atol = None if atol is None else np.asarray(checks.number("atol", atol, above=0))
        self.weight_decay = np.asarray(checks.number("weight_decay", weight_decay, at_least=0))

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        need_expectation("Flow", problem, net)

    def stepper(self, params, key: int) -> FlowStepper:
        weight_decay = self.weight_decay if self.weight_decay != 0 else None
        tolerance = Tolerance.at(self.rtol, self.atol, params)
        return FlowStepper(tolerance=tolerance, weight_decay=weight_decay)

    def in_basis(self, basis: np.ndarray) -> "Flow":
        return self

    def drive(self, clock: float, memory: Any, calls: int, limit: float) -> tuple[Any, float]:
        return memory.taken + calls, np.inf

    def time(self, clock: np.ndarray) -> np.ndarray:
        return np.asarray(clock)

    def clock(self, time: float) -> float:
        return time


@contextlib.contextmanager
def _usual_promotion() -> Iterator[None]:
    """Diffrax counts on jax's default promotion rules, which the caller may have made strict."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _where(keep, new, old) -> Any:
    return jax.tree.map(lambda n, o: jnp.where(keep, n, o), new, old)
