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
        controller: the state of the step size controller.
        solver: the state of the Runge-Kutta method.
        taken: steps so far, rejected ones included.
        best: the lowest objective seen.
        since: accepted steps since then.
        anchor: the parameters there.
        mark_taken: steps at the last look at how fast time passes.
        mark_clock: the time then.
    """

    dt: Any
    controller: Any
    solver: Any
    taken: Any
    best: Any
    since: Any
    anchor: Any
    mark_taken: Any
    mark_clock: Any


class FlowStepper(Stepper):
    """dp/dt = −∇(L + γ‖p‖²), in steps that end on the times asked for."""

    rtol: Any
    atol: Any
    weight_decay: Any

    def begin(self, system: System, params) -> Memory:
        term, zero, method = self._term(system), jnp.asarray(0.0), _solver()
        with _usual_promotion():
            t1, controller = self._controller().init(
                term, zero, jnp.asarray(jnp.inf), params, None, None, method.func, ORDER
            )
            solver = method.init(term, zero, t1, params, None)
        count = jnp.asarray(0)
        best = jnp.asarray(jnp.inf)
        return Memory(t1, controller, solver, count, best, count, params, count, zero)

    def advance(self, system: System, state: State, start, target, drive, goal) -> State:
        def unfinished(state):
            budget = state.memory.taken < drive
            return (state.clock < target) & (state.code == RUNNING) & budget

        def step(state):
            return self._step(system, state, target, goal)

        return jax.lax.while_loop(unfinished, step, state)

    def _controller(self) -> "diffrax.PIDController":
        import diffrax

        return diffrax.PIDController(rtol=self.rtol, atol=self.atol)

    def _term(self, system: System) -> "diffrax.ODETerm":
        import diffrax

        def field(t, params, args):
            grads = gradient(system.problem, system.net, params)
            return jax.tree.map(jnp.negative, decayed(grads, params, self.weight_decay))

        return diffrax.ODETerm(field)

    def _step(self, system: System, state: State, target, goal) -> State:
        term, memory = self._term(system), state.memory
        t0, t1 = state.clock, jnp.minimum(state.clock + memory.dt, target)
        with _usual_promotion():
            candidate, error, _, solver, _ = _solver().step(
                term, t0, t1, state.params, None, memory.solver, False
            )
            reached, error = _overflow_is_large(state.params, candidate, error)
            keep, t_from, t_to, _, controller, _ = self._controller().adapt_step_size(
                t0, t1, state.params, reached, None, error, ORDER, memory.controller
            )
        # A step cut short by a save time says little about the next one.
        shortened = keep & (t1 == target)
        dt = jnp.where(shortened, jnp.maximum(t_to - t_from, memory.dt), t_to - t_from)
        moved = eqx.tree_at(
            lambda m: (m.dt, m.controller, m.solver, m.taken),
            memory,
            (dt, controller, _where(keep, solver, memory.solver), memory.taken + 1),
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
        floor = (since >= PATIENCE) & (self._distance(state.params, anchor) < 1e3)
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

    def _distance(self, params, anchor) -> Any:
        """The largest change since the anchor, in units of the tolerance."""
        units = jax.tree.map(
            lambda p, a: jnp.max(
                jnp.abs(p - a) / (self.atol + self.rtol * jnp.abs(p)), initial=0.0
            ),
            params,
            anchor,
        )
        return jnp.max(jnp.stack(jax.tree.leaves(units)))


class Flow(Dynamics):
    """Gradient flow, dp/dt = −∇L, integrated by diffrax's Dopri8.

    Args:
        rtol: relative tolerance of a step.
        atol: absolute tolerance; None takes 1e-11 of the smallest non-zero layer (its root mean
            square) at the start, which small inits need.
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
        atol = self.atol if self.atol is not None else np.asarray(1e-11 * _scale(params))
        return FlowStepper(self.rtol, atol, self.weight_decay if self.weight_decay != 0 else None)

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


def _scale(params) -> float:
    """The root mean square of the smallest non-zero layer; 1 if all are zero."""
    sizes = [_rms(p) for p in jax.tree.leaves(params) if np.any(p)]
    return float(min(sizes, default=1.0))


def _rms(array: np.ndarray) -> float:
    largest = np.abs(array).max()  # divided out: squares of 1e-200 are zero
    return largest * np.sqrt(np.mean(np.square(array / largest)))


def _overflow_is_large(params, candidate, error) -> tuple[Any, Any]:
    """Where a step overflowed, the controller is told that it is wrong by far, not by NaN."""
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves((candidate, error))]
    finite = jnp.all(jnp.stack(leaves))
    wrong = jax.tree.map(lambda p: 1e10 * (1 + jnp.abs(p)), params)
    return _where(finite, candidate, params), _where(finite, error, wrong)


def _where(keep, new, old) -> Any:
    return jax.tree.map(lambda n, o: jnp.where(keep, n, o), new, old)
