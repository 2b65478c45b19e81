"""Observables of the saved states: lifted and measured outside the step loop, in blocks."""

import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ._setup import Setup
from .numerics.precision import to_numpy, warn_of_float32
from .observe._base import OfPredictor
from .observe._running import Running

BLOCK_BYTES = 2**28  # saved states that wait to be measured
LARGE_BYTES = 2**30  # results above this get a warning before the run starts


@eqx.filter_jit
def _measure(observables: dict[str, Any], problem, net, lift, states) -> dict[str, Any]:
    """Every observable at every state; one state at a time is lifted."""

    def one(state):
        if lift is None:
            return {name: f(problem, net, state) for name, f in observables.items()}
        params, theta = lift(state), lift.predictor(state)  # what nobody uses is not computed
        return {
            name: f.of_theta(problem, theta)
            if isinstance(f, OfPredictor)
            else f(problem, net, params)
            for name, f in observables.items()
        }

    return jax.lax.map(one, states)


@eqx.filter_jit
def lifted(lift, params) -> Any:
    """All parameters of a reduced state."""
    return lift(params)


class Recorder:
    """Collects saved states, measures them, and hands out arrays with a row for every save.

    Args:
        setup: the run; its record says what to measure.
        lift: from a reduced state to all parameters; None if states are not reduced.
        params: a state, for its shapes.
    """

    def __init__(self, setup: Setup, lift: Any, params: Any):
        self.setup, self.lift = setup, lift
        bound = {
            name: f.bind(setup.problem, setup.net)
            for name, f in setup.record.items()
            if not isinstance(f, Running)
        }
        self.traced = {name: f for name, f in bound.items() if self._traceable(name, f)}
        self.plain = {name: f for name, f in bound.items() if name not in self.traced}
        rows = len(setup.save_at)
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
        self.block = int(np.clip(BLOCK_BYTES // max(size, 1), 1, rows))
        self.waiting = jax.tree.map(lambda leaf: np.array([leaf] * self.block), params)
        self.rows: list[int] = []
        self.results: dict[str, Any] = {}

    def take(self, row: int, params: Any, sums: dict[str, Any]) -> None:
        """Keep the state of one save; sums are results already."""
        for name, value in sums.items():
            self._store(name, jax.tree.map(lambda v: v[None], value), [row])
        slot = len(self.rows)
        for buffer, leaf in zip(
            jax.tree.leaves(self.waiting), jax.tree.leaves(params), strict=True
        ):
            buffer[slot] = leaf
        self.rows.append(row)
        if len(self.rows) == self.block:
            self._flush()

    def finish(self) -> dict[str, Any]:
        """The arrays, with NaN in the rows that were never reached."""
        self._flush()
        return self.results

    def _flush(self) -> None:
        if not self.rows:
            return
        problem, net = self.setup.problem, self.setup.net
        values = {}
        if self.traced:
            values = to_numpy(_measure(self.traced, problem, net, self.lift, self.waiting))
        if self.plain:
            values |= self._measure_plain()
        for name, value in values.items():
            self._store(name, value, self.rows)
        self.rows = []

    def _measure_plain(self) -> dict[str, Any]:
        """Observables that jax cannot trace get NumPy parameters, one state after the other."""
        problem, net, states = self.setup.problem, self.setup.net, []
        for slot in range(len(self.rows)):
            state = jax.tree.map(lambda buffer, slot=slot: buffer[slot], self.waiting)
            states.append(state if self.lift is None else to_numpy(lifted(self.lift, state)))
        return {
            name: jax.tree.map(
                lambda *rows: np.stack([np.asarray(row, np.float64) for row in rows]),
                *(f(problem, net, state) for state in states),
            )
            for name, f in self.plain.items()
        }

    def _store(self, name: str, value: Any, rows: list[int]) -> None:
        total = len(self.setup.save_at)
        if name not in self.results:
            self.results[name] = jax.tree.map(
                lambda v: np.full((total, *v.shape[1:]), np.nan), value
            )
        for target, v in zip(
            jax.tree.leaves(self.results[name]), jax.tree.leaves(value), strict=True
        ):
            target[rows] = v[: len(rows)]

    def _traceable(self, name: str, observable: Any) -> bool:
        """Can jax trace it? Also warns before results that fill the memory are collected."""
        setup = self.setup
        try:
            shapes = warn_of_float32(
                f"record[{name!r}]",
                lambda params: observable(setup.problem, setup.net, params),
                setup.params,
            )
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
            return False
        size = 8 * sum(int(np.prod(s.shape)) for s in jax.tree.leaves(shapes))
        if size * len(setup.save_at) > LARGE_BYTES:
            warnings.warn(
                f"record[{name!r}] will take {size * len(setup.save_at) / 2**30:.1f} GiB "
                f"({len(setup.save_at)} saves of {size / 2**20:.0f} MiB): fewer save_at, or an "
                "observable that says less, would do with less",
                stacklevel=4,
            )
        return True
