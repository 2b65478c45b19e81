"""What observables are called with, and what they say of a state."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jax.stages import Traced

from ..nets import Net
from ..numerics.types import PyTree
from ..observe.base import OfPredictor
from ..problems import Problem
from .stacking import Stack


class View(NamedTuple):
    """What observables of one member are called with, beside the parameters."""

    observables: dict[str, Any]
    problem: Any
    net: Any
    lift: Any


def trace_measurement(
    observable: Callable[..., PyTree], problem: Problem, net: Net, params: PyTree
) -> Traced:
    """What jax makes of an observable; asked again for equal shapes, it remembers."""
    arrays, rest = eqx.partition((observable, problem, net, params), eqx.is_array)
    leaves, structure = jax.tree.flatten(rest)
    return _measurement.trace(arrays, structure, tuple(leaves))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _measurement(arrays: PyTree, structure: Any, leaves: tuple[Any, ...]) -> PyTree:
    rest = jax.tree.unflatten(structure, leaves)
    observable, problem, net, params = eqx.combine(arrays, rest)
    return observable(problem, net, params)


class Views(eqx.Module):
    """The views of all members.

    Attributes:
        members: theirs.
        alone: is code of others among them? It is asked for one state at a time, as it was tried.
    """

    members: Stack
    alone: bool = eqx.field(static=True)

    def measure(self, own: PyTree, state: PyTree) -> dict[str, Any]:
        """Every observable of one member, given its slice of `members.own` (jax-level)."""
        if not self.alone:
            return _measured(self.members.of(own), state)
        arrays, rest = eqx.partition(self.members.shared, eqx.is_array)

        def member(own, arrays, state):
            return _measured(Stack(own, eqx.combine(arrays, rest)).of(own), state)

        return jax.custom_batching.sequential_vmap(member)(own, arrays, state)


def _measured(view: View, state: PyTree) -> dict[str, Any]:
    problem = view.problem
    net = view.net
    lift = view.lift
    if lift is None:
        return {name: f(problem, net, state) for name, f in view.observables.items()}
    # what nobody uses is not computed
    params = lift(state)
    theta = lift.predictor(state)
    return {
        name: f.of_theta(problem, theta) if isinstance(f, OfPredictor) else f(problem, net, params)
        for name, f in view.observables.items()
    }
