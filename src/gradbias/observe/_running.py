"""Sums along the path: measured at every step, inside the loop."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..nets import Net
from ..numerics.types import Number, PyTree
from ..problems import Problem
from .base import Measurement, Observable

Increment = Callable[[Any, Any, Any, Any, Any], Any]


class Running(Observable):
    """The sum over all steps so far of an increment; see `running`."""

    increment: Increment = eqx.field(static=True)

    @property
    def name(self) -> str:
        return getattr(self.increment, "__name__", "running")

    def bind(self, problem: Problem, net: Net) -> Measurement:
        return self

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> PyTree:
        raise TypeError("a running sum is made of every step; it has no value at a single state")

    def of_step(
        self, problem: Problem, net: Net, params: PyTree, gradient: PyTree, lr: Number
    ) -> PyTree:
        """What one step adds (jax-level)."""
        value = self.increment(problem, net, params, gradient, lr)
        return jax.tree.map(lambda v: jnp.asarray(v, jnp.float64), value)


def running(increment: Increment) -> Running:
    """Sum a quantity over every step of the run, saved where the record is.

    Args:
        increment: g(problem, net, params, gradient, lr), written with jax.numpy: what one step
            adds. It sees the user's problem and net, all parameters before the step, the
            (stochastic) gradient of the loss that the step follows, weight decay not included,
            and the learning rate; also when the run is reduced.
    """
    if not callable(increment):
        raise ValueError(
            "running: increment must be a function of (problem, net, params, gradient, lr), "
            f"got {increment!r:.80}"
        )
    return Running(increment)
