"""Steps of adaptive Runge–Kutta integration, for loops that decide themselves when to stop.

The only place that drives diffrax by hand (jax-level). Equations are autonomous: dy/dt = field(y).
Import it where an equation is solved: diffrax takes half a second to load.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp

from .types import Array, Number, PyTree

SOLVER = diffrax.Dopri8()
ORDER = 8  # of the solver's error estimate, which decides how fast steps grow


class Trial(NamedTuple):
    """A step that was tried.

    Attributes:
        state: where it leads.
        keep: is it accurate enough?
        dt: the size of the next step, from its end if it is kept.
        controller: what the step size control remembers.
    """

    state: PyTree
    keep: jax.Array
    dt: jax.Array
    controller: PyTree


@dataclass(frozen=True)
class AdaptiveOde:
    """dy/dt = field(y) by Dopri8, its steps chosen so that their errors are atol + rtol·|y|.

    Attributes:
        field: from a state to its velocity.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
    """

    field: Callable[[PyTree], PyTree]
    rtol: Number
    atol: Number

    def begin(self, state: PyTree, dt: Array) -> PyTree:
        """What the step size control remembers before the first step, which has size `dt`."""
        with usual_promotion():
            _, controller = self._control().init(
                _term(self.field), jnp.asarray(0.0), dt, state, dt, None, SOLVER.func, ORDER
            )
        return controller

    def step(self, start: Array, end: Array, state: PyTree, controller: PyTree) -> Trial:
        """Try the step from time `start` to `end`."""
        with usual_promotion():
            memory = begin_solver(self.field, start, end, state)
            new, error, _ = solver_step(self.field, start, end, state, memory)
            keep, t_from, t_to, _, controller, _ = self._control().adapt_step_size(
                start, end, state, new, None, error, ORDER, controller
            )
        return Trial(new, jnp.asarray(keep), jnp.asarray(t_to - t_from), controller)

    def _control(self) -> diffrax.PIDController:
        return diffrax.PIDController(rtol=self.rtol, atol=self.atol)


def begin_solver(
    field: Callable[[PyTree], PyTree], start: Array, end: Array, state: PyTree
) -> PyTree:
    """What the solver remembers before its first step."""
    return SOLVER.init(_term(field), start, end, state, None)


def solver_step(
    field: Callable[[PyTree], PyTree],
    start: Array,
    end: Array,
    state: PyTree,
    memory: PyTree,
) -> tuple[PyTree, PyTree, PyTree]:
    """The state after one step, an estimate of its error, and what the solver remembers."""
    new, error, _, memory, _ = SOLVER.step(_term(field), start, end, state, None, memory, False)
    return new, error, memory


def _term(field: Callable[[PyTree], PyTree]) -> diffrax.ODETerm:
    return diffrax.ODETerm(lambda t, state, args: field(state))


@contextlib.contextmanager
def usual_promotion() -> Iterator[None]:
    """Diffrax counts on jax's default promotion rules, which the caller may have made strict."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
