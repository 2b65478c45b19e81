"""Gradient flow: by a Runge-Kutta method of order eight, or implicitly where that is stiff."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..numerics import checks
from ..numerics.types import Number, PyTree
from ..problems import Problem
from ._gradient import decayed, gradient, need_expectation
from ._hessian_solve import nothing_grows, why_explicit
from ._implicit_steps import ORDER as IMPLICIT_ORDER
from ._implicit_steps import implicit_step
from ._loss_clock import LossClockStepper, account_of, clock_of, log_time, need_margins
from ._tolerance import Tolerance, first_size, next_size
from .protocol import CONVERGED, FAILED, FLOOR, RUNNING, STIFF, Dynamics, State, Stepper, System

# A run whose time grows by less than this in so many steps would need millions to double it: the
# problem is stiff, or its loss has kinks on which an adaptive method grinds.
CRAWL_STEPS = 5_000
CRAWL_STEPS_IMPLICIT = 500
CRAWL_GROWTH = 1e-3
# So many steps, not cut short by a save, while time grows by this factor: what still moves would
# allow longer ones, and only fast directions that have long decayed do not.
STIFF_STEPS = 1_000
STIFF_GROWTH = 1.5
SOLVERS = ("auto", "explicit", "implicit")
RESTS = 1e-12  # of the gap: what an endless run that rests would remove in twice its time
STRICTER = 3  # errors of implicit steps point the same way in many of them, and add up
# Accepted steps without a lower objective before a run may be at its floor.
PATIENCE = 100
PATIENCE_IMPLICIT = 10


class IntegratorState(eqx.Module):
    """The integrator between two steps, and what it takes to see that it no longer gets on.

    Attributes:
        dt: the size of the next step.
        solver: the state of the Runge-Kutta method.
        taken: steps so far, rejected ones included.
        best: the lowest objective seen.
        since: accepted steps since the anchor.
        anchor: the parameters there, or PATIENCE steps after the last anchor.
        mark_taken: steps at the last look at how fast time passes.
        mark_clock: the time then.
        free: steps not cut short by a save since `free_clock`.
        free_clock: the last time that was larger than the one before by STIFF_GROWTH.
    """

    dt: Any
    solver: Any
    taken: Any
    best: Any
    since: Any
    anchor: Any
    mark_taken: Any
    mark_clock: Any
    free: Any
    free_clock: Any


class FlowStepper(Stepper):
    """dp/dt = −∇(L + γ‖p‖²), in steps that end on the times asked for.

    Attributes:
        tolerance: how wrong a step may be.
        weight_decay: γ; None for none.
        implicit: is a step implicit?
        switches: does an explicit one stop, with the code STIFF, where an implicit one is better?
    """

    tolerance: Tolerance
    weight_decay: Any
    implicit: bool = eqx.field(static=True)
    switches: bool = eqx.field(static=True)

    @property
    def when_stiff(self) -> "FlowStepper":
        return FlowStepper(
            tolerance=self.tolerance,
            weight_decay=self.weight_decay,
            implicit=True,
            switches=False,
        )

    def begin(self, system: System, params: PyTree) -> IntegratorState:
        reason = why_explicit(system, params) if self.implicit else None
        if reason is not None:
            raise ValueError(f'solver must be "auto" or "explicit" here, got "implicit": {reason}')
        from ..numerics.adaptive_ode import begin_solver, usual_promotion

        zero = jnp.asarray(0.0)

        def field(p: PyTree) -> PyTree:
            return self._field(system, p)

        with usual_promotion():
            dt = first_size(field, self.tolerance, system.net, params)
            solver = begin_solver(field, zero, dt, params)
        count = jnp.asarray(0)
        best = jnp.asarray(jnp.inf)
        return IntegratorState(dt, solver, count, best, count, params, count, zero, count, zero)

    def advance(
        self, system: System, state: State, start: PyTree, target: Number, drive: Any, goal: Number
    ) -> State:
        most, endless = drive

        def unfinished(state):
            budget = state.memory.taken < most
            return (state.clock < target) & (state.code == RUNNING) & budget

        def step(state):
            moved, keep = self._step(system, state, target)
            moved = self._judge(system, state.params, moved, keep, goal)
            if not self.implicit:
                return moved
            asked = endless & keep & (moved.code == RUNNING)
            rests = jax.lax.cond(
                asked, lambda state: self._rests(system, state), lambda _: jnp.asarray(False), moved
            )
            return moved._replace(code=jnp.where(rests, FLOOR, moved.code))

        return jax.lax.while_loop(unfinished, step, state)

    def _field(self, system: System, params: PyTree) -> PyTree:
        grads = gradient(system.problem, system.net, params)
        return jax.tree.map(jnp.negative, decayed(grads, params, self.weight_decay))

    def _step(self, system: System, state: State, target) -> tuple[State, Any]:
        """Try a step; returns where it leads, and whether it was kept."""
        from ..numerics.adaptive_ode import ORDER, usual_promotion

        memory = state.memory
        t0 = state.clock
        t1 = jnp.minimum(state.clock + memory.dt, target)
        with usual_promotion():
            candidate, error, solver = self._tried(system, state, t1)
            ratio = self.tolerance.ratio(system.net, state.params, candidate, error)
        order = ORDER
        if self.implicit:
            ratio = STRICTER * ratio
            order = IMPLICIT_ORDER - 1
        keep, size = next_size(t1 - t0, ratio, order)
        # A step cut short by a save time says little about the next one.
        dt = jnp.where(keep & (t1 == target), jnp.maximum(size, memory.dt), size)
        free = memory.free + (t1 < target).astype(memory.free.dtype)
        moved = eqx.tree_at(
            lambda m: (m.dt, m.solver, m.taken, m.free),
            memory,
            (dt, _where(keep, solver, memory.solver), memory.taken + 1, free),
            is_leaf=lambda leaf: leaf is None,
        )
        params = _where(keep, candidate, state.params)
        clock = jnp.where(keep, t1, t0)
        # A step is so short that it is smooth to all digits: the larger end stands for it.
        slopes = [system.add_slope(state.slopes, p, clock - t0) for p in (state.params, params)]
        slopes = jax.tree.map(jnp.maximum, *slopes)  # None stays None
        return State(params, state.sums, clock, moved, state.code, slopes), keep

    def _tried(self, system: System, state: State, end) -> tuple[Any, Any, Any]:
        """The state after one step, its error, and the state of the method."""
        from ..numerics.adaptive_ode import solver_step

        def field(p: PyTree) -> PyTree:
            return self._field(system, p)

        if self.implicit:
            size = end - state.clock
            new, error = implicit_step(system, field, self.weight_decay, state.params, size)
            return new, error, state.memory.solver
        return solver_step(field, state.clock, end, state.params, state.memory.solver)

    def _rests(self, system: System, state: State) -> jax.Array:
        """Would twice the time so far change next to nothing, and does nothing grow?

        The loss falls by ‖∇L‖² in a unit of time. At a saddle that is left later this is as small,
        but there the Hessian has a negative eigenvalue.
        """
        field = self._field(system, state.params)
        squares = [jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(field)]
        gap = system.gap(system.problem, system.net, state.params)
        slow = state.clock * sum(squares[1:], squares[0]) < RESTS * gap
        return slow & nothing_grows(
            system, lambda p: self._field(system, p), self.weight_decay, state.params, state.clock
        )

    def _judge(self, system: System, before, state: State, keep, goal) -> State:
        """Has it converged, got stuck at the integrator's floor, or failed?"""
        value = system.gap(system.problem, system.net, state.params)
        memory = state.memory
        objective = value
        if self.weight_decay is not None:
            squares = [jnp.sum(p * p) for p in jax.tree.leaves(state.params)]
            objective = value + self.weight_decay * sum(squares[1:], squares[0])
        falls = objective < memory.best
        since = jnp.where(falls, 0, memory.since + keep.astype(memory.since.dtype))
        anchor = _where(falls, state.params, memory.anchor)
        patient = since >= (PATIENCE_IMPLICIT if self.implicit else PATIENCE)
        floor = jax.lax.cond(
            patient,
            lambda *states: self.tolerance.distance(system.net, *states) < 1e3,
            lambda *_: jnp.asarray(False),
            *(state.params, before, anchor),
        )
        # What decays below the digits of the objective moves ever less, what grows ever more.
        since = jnp.where(patient, 0, since)
        anchor = _where(patient, state.params, anchor)
        most = CRAWL_STEPS_IMPLICIT if self.implicit else CRAWL_STEPS
        crawls = memory.taken - memory.mark_taken >= most
        slow = crawls & (state.clock < (1 + CRAWL_GROWTH) * memory.mark_clock)
        failed = slow | ~(memory.dt > 1e-14 * state.clock)  # NaN, too
        grown = state.clock >= STIFF_GROWTH * memory.free_clock
        free = jnp.where(grown, 0, memory.free)
        free_clock = memory.free_clock
        free_clock = jnp.where(grown, state.clock, free_clock)
        code = jnp.asarray(RUNNING)
        if self.switches and why_explicit(system, state.params) is None:
            code = jnp.where(free >= STIFF_STEPS, STIFF, code)
        code = jnp.where(floor, FLOOR, jnp.where(failed, FAILED, code))
        code = jnp.where(value <= goal, CONVERGED, code)
        best = jnp.where(falls, objective, memory.best)
        mark_taken = jnp.where(crawls, memory.taken, memory.mark_taken)
        mark_clock = jnp.where(crawls, state.clock, memory.mark_clock)
        memory = eqx.tree_at(
            lambda m: (m.best, m.since, m.anchor, m.mark_taken, m.mark_clock, m.free, m.free_clock),
            memory,
            (best, since, anchor, mark_taken, mark_clock, free, free_clock),
        )
        code = code.astype(state.code.dtype)
        return state._replace(memory=memory, code=code)


class Flow(Dynamics):
    """Gradient flow, dp/dt = −∇L.

    Integrated by diffrax's Dopri8. Where fast directions that have long decayed keep its steps
    short (features of unequal scale, correlated ones), an implicit method of order fourteen takes
    over: the linearly implicit midpoint rule with the exact Hessian, extrapolated. The flow stays
    explicit where a Hessian is too large (1000 parameters; after the exact closure of a product of
    matrices, 1000 beside its first layer), or of no use (relu).

    Args:
        rtol: relative tolerance of a step.
        atol: absolute tolerance; None takes 1e-11 of the smallest non-zero layer (its root mean
            square) at the start, and of each hidden unit as it grows: a unit of 1e-12 beside
            others of order one is learned at the right time.
        weight_decay: γ of the objective L + γ‖params‖².
        solver: "auto" is the above; "explicit" or "implicit" is the one method all along.
        clock: "time", or "loss" for a `Classification`, whose loss falls for ever: steps are in
            log t, with log L carried along, and reach times such as e^300. `save_at` are then
            values of log t, results are laid out over `log_time`, and `Until(log_time=…)` says how
            far; `run.stats["clock_error"]` is what is left between the log L that was integrated
            and that of the parameters.
    """

    counts_steps: ClassVar[bool] = False
    rtol: Any
    atol: Any
    weight_decay: Any
    solver: str = eqx.field(static=True)
    clock_name: str = eqx.field(static=True)

    def __init__(
        self,
        rtol: float = 1e-10,
        atol: float | None = None,
        weight_decay: float = 0.0,
        solver: str = "auto",
        clock: str = "time",
    ):
        # Loaded here, and not under the settings in which a run is traced.
        from ..numerics import adaptive_ode  # noqa: F401

        self.rtol = np.asarray(checks.number("rtol", rtol, above=0, below=1))
        self.atol = None if atol is None else np.asarray(checks.number("atol", atol, above=0))
        self.weight_decay = np.asarray(checks.number("weight_decay", weight_decay, at_least=0))
        self.solver = checks.one_of("solver", solver, SOLVERS)
        self.clock_name = checks.one_of("clock", clock, ("time", "loss"))
        if clock == "loss" and solver == "implicit":
            raise ValueError('solver must be explicit with clock="loss", got "implicit"')

    @property
    def axis(self) -> Literal["time", "log_time"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What results are laid out over."""
        return "log_time" if self.by_loss else "time"

    @property
    def by_loss(self) -> bool:
        """Is the clock that of the loss?"""
        return self.clock_name == "loss"

    @property
    def given(self) -> dict[str, str]:
        """The argument that has the name of a method."""
        return {"clock": self.clock_name}

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        need_expectation("Flow", problem, net)
        if self.by_loss:
            need_margins(problem, net, float(self.weight_decay))

    def stepper(self, params: PyTree, key: int) -> Stepper:
        weight_decay = self.weight_decay if self.weight_decay != 0 else None
        tolerance = Tolerance.at(self.rtol, self.atol, params)
        if self.by_loss:
            return LossClockStepper(tolerance=tolerance, weight_decay=None)
        implicit = self.solver == "implicit"
        auto = self.solver == "auto"
        return FlowStepper(
            tolerance=tolerance, weight_decay=weight_decay, implicit=implicit, switches=auto
        )

    def in_basis(self, basis: np.ndarray) -> "Flow":
        return self

    def drive(self, clock: float, memory: PyTree, calls: int, limit: float) -> tuple[Any, float]:
        most = memory.taken + calls
        return (most if self.by_loss else (most, np.asarray(limit == np.inf))), np.inf

    def time(self, clock: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.expm1(clock) if self.by_loss else np.asarray(clock)

    def clock(self, time: float) -> float:
        return float(np.log1p(time)) if self.by_loss else time

    def clock_at_log_time(self, log_time: float) -> float:
        return clock_of(log_time) if self.by_loss else super().clock_at_log_time(log_time)

    def on_axis(self, clock: np.ndarray) -> np.ndarray:
        return log_time(clock) if self.by_loss else super().on_axis(clock)

    def account(self, system: System, state: State) -> dict[str, float]:
        return account_of(system, state) if self.by_loss else {}


def _where(keep, new, old) -> Any:
    return jax.tree.map(lambda n, o: jnp.where(keep, n, o), new, old)
