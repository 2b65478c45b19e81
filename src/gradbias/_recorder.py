"""Observables of the saved states: lifted and measured outside the step loop, in blocks."""

import warnings
from collections.abc import Collection
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._members import Stack, fits_side_by_side, over_members, stack
from ._setup import Setup
from .numerics.precision import to_numpy, warn_of_float32
from .observe._base import Function, OfPredictor
from .observe._running import Running

BLOCK_BYTES = 2**28  # saved states that wait to be measured
WIDE_BYTES = 2**20  # of a lift; larger ones are not handed over where nobody looks at layers
BATCH_ROWS = 50  # rows that are measured in one call
LARGE_BYTES = 2**30  # results above this get a warning before the run starts


class View(NamedTuple):
    """What observables of one member are called with, beside the parameters."""

    observables: dict[str, Any]
    problem: Any
    net: Any
    lift: Any


@eqx.filter_jit
def _measure(views: Stack, states, needed, side_by_side: bool) -> dict[str, Any]:
    """Every observable at the states of needed rows, (rows, members, …), a row at a time."""

    def member(own, state):
        return _observe(views.of(own), state)

    def measured(states):
        return over_members(member, side_by_side, views.own, states)

    def row(piece):
        states, needed = piece
        shapes = jax.eval_shape(measured, states)
        skipped = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        return jax.lax.cond(needed, measured, lambda _: skipped, states)

    return jax.lax.map(row, (states, needed))


def _observe(view: View, state) -> dict[str, Any]:
    problem, net, lift = view.problem, view.net, view.lift
    if lift is None:
        return {name: f(problem, net, state) for name, f in view.observables.items()}
    params, theta = lift(state), lift.predictor(state)  # what nobody uses is not computed
    return {
        name: f.of_theta(problem, theta) if isinstance(f, OfPredictor) else f(problem, net, params)
        for name, f in view.observables.items()
    }


@eqx.filter_jit
def lifted(lift, params) -> Any:
    """All parameters of a reduced state."""
    return lift(params)


class Recorder:
    """Collects saved states of all members, measures them, and hands out arrays.

    Results have a row for every save and one more for the end, then an axis of members.

    Args:
        setups: the members; of one shape, with equal records and numbers of saves.
        lifts: from a reduced state to all parameters; None where states are not reduced.
        params: the members' first states, stacked.
        differ: the names of the leaves of views that members have each for itself; None looks at
            these members alone.
        records: what `bound_record` made of the setups; None makes it.
    """

    def __init__(
        self,
        setups: list[Setup],
        lifts: list[Any],
        params: Any,
        differ: Collection[str] | None = None,
        records: list[dict[str, Any]] | None = None,
    ):
        self.setups, self.lifts = setups, lifts
        bound = [bound_record(setup) for setup in setups] if records is None else records
        self.traced = [name for name, f in bound[0].items() if _traceable(setups[0], name, f)]
        self.plain = {
            name: [b[name] for b in bound] for name in bound[0] if name not in self.traced
        }
        measured = [bound[0][name] for name in self.traced]
        if all(isinstance(f, OfPredictor) for f in measured) and _bytes(lifts[0]) > WIDE_BYTES:
            lifts = [lift.for_predictor() for lift in lifts]
        views = [
            View({name: b[name] for name in self.traced}, setup.problem, setup.net, lift)
            for b, setup, lift in zip(bound, setups, lifts, strict=True)
        ]
        self.views = stack(views, differ)
        # Code of others is asked for one state at a time, as it was tried.
        own = any(isinstance(f, Function) for f in setups[0].record.values())
        self.side_by_side = fits_side_by_side(setups[0].params, len(setups)) and not own
        self.total = len(setups[0].save_at) + 1
        size = _bytes(params)
        self.block = int(np.clip(BLOCK_BYTES // max(size, 1), 1, self.total))
        self.params = params
        self.waiting = jax.tree.map(lambda leaf: np.empty((self.block, *leaf.shape)), params)
        self.batch = min(self.block, BATCH_ROWS)
        self.seen = np.zeros((self.total, len(setups)), bool)
        self.first = 0
        self.results: dict[str, Any] = {}

    def take(self, row: int, members: Any, params: Any, sums: dict[str, Any]) -> None:
        """Keep the states of some members at one save; sums are results already.

        Args:
            row: of the save; rows must come in order when not all of them fit into a block.
            members: their indices, or a mask.
            params: their states, stacked.
            sums: their sums, stacked.
        """
        while row >= self.first + self.block:
            self._flush()
        self.seen[row, members] = True
        _put(self.waiting, (row - self.first, members), params)
        for name, value in sums.items():
            _put(self._result(name, value), (row, members), value)

    def finish(self) -> dict[str, Any]:
        """The arrays, with NaN where a member was not at a save."""
        while self.first < self.total:
            self._flush()
        if not self.seen.all():
            for value in jax.tree.leaves(self.results):
                value[~self.seen] = np.nan
        return self.results

    def _flush(self) -> None:
        """Measure the rows that wait, a batch of one size after the other, if any was reached."""
        stop = min(self.first + self.block, self.total)
        for start in range(self.first, stop, self.batch):
            slots = range(start - self.first, min(start + self.batch, stop) - self.first)
            rows = slice(start, start + len(slots))
            if self.seen[rows].any():
                self._measure(slots, rows)
        self.first = stop

    def _measure(self, slots: range, rows: slice) -> None:
        self._complete(slots, rows)
        needed = np.zeros(self.batch, bool)
        needed[: len(slots)] = self.seen[rows].any(axis=1)
        values: dict[str, Any] = {}
        if self.traced:
            states = jax.tree.map(lambda buffer: _padded(buffer, slots, self.batch), self.waiting)
            values = to_numpy(_measure(self.views, states, needed, self.side_by_side))
        values |= self._measure_plain(slots) if self.plain else {}
        for name, value in values.items():
            kept = jax.tree.map(lambda v: v[: len(slots)], value)
            _put(self._result(name, value, skip=2), rows, kept)

    def _complete(self, slots: range, rows: slice) -> None:
        """Members that were not at a save are measured with the others: at their start."""
        missing = ~self.seen[rows]
        for row in np.flatnonzero(missing.any(axis=1)).tolist():
            members = missing[row]
            start = jax.tree.map(lambda leaf, m=members: leaf[m], self.params)
            _put(self.waiting, (slots.start + row, members), start)

    def _measure_plain(self, slots: range) -> dict[str, Any]:
        """Observables that jax cannot trace get NumPy parameters, one state after the other."""
        tables: dict[str, list[list[Any]]] = {name: [] for name in self.plain}
        for slot in slots:
            states = [self._state(slot, m) for m in range(len(self.setups))]
            for name, functions in self.plain.items():
                tables[name].append(
                    [
                        f(setup.problem, setup.net, state)
                        for f, setup, state in zip(functions, self.setups, states, strict=True)
                    ]
                )
        return {
            name: _stacked(name, [_stacked(name, row) for row in table])
            for name, table in tables.items()
        }

    def _state(self, slot: int, member: int) -> Any:
        state = jax.tree.map(lambda buffer: buffer[slot, member], self.waiting)
        lift = self.lifts[member]
        return state if lift is None else to_numpy(lifted(lift, state))

    def _result(self, name: str, value: Any, skip: int = 1) -> Any:
        if name not in self.results:
            rows, members = self.seen.shape
            # Members first in memory: that is how results are handed on.
            self.results[name] = jax.tree.map(
                lambda v: np.empty((members, rows, *np.shape(v)[skip:])).swapaxes(0, 1), value
            )
        return self.results[name]


def bound_record(setup: Setup) -> dict[str, Any]:
    """The observables of a setup that are measured at saved states, made ready for its data."""
    return {
        name: f.bind(setup.problem, setup.net)
        for name, f in setup.record.items()
        if not isinstance(f, Running)
    }


def _bytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def _put(target: Any, where: Any, value: Any) -> None:
    for buffer, leaf in zip(jax.tree.leaves(target), jax.tree.leaves(value), strict=True):
        buffer[where] = leaf


def _padded(buffer: np.ndarray, slots: range, size: int) -> np.ndarray:
    """These rows, the last of them repeated up to `size`; a full batch is not copied."""
    chosen = buffer[slots.start : slots.stop]
    return chosen if len(chosen) == size else chosen[np.minimum(np.arange(size), len(chosen) - 1)]


def _stacked(name: str, values: list[Any]) -> Any:
    try:
        return jax.tree.map(lambda *v: np.stack([np.asarray(x, np.float64) for x in v]), *values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"record[{name!r}] must give real numbers of the same shape every time: {error}"
        ) from error


def _traceable(setup: Setup, name: str, observable: Any) -> bool:
    """Can jax trace it? Also warns before results that fill the memory are collected."""
    net = setup.net
    try:
        shapes = warn_of_float32(
            f"record[{name!r}]",
            lambda problem, params: observable(problem, net, params),
            setup.problem,
            setup.params,
        )
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
        return False
    except Exception as error:
        raise ValueError(f"record[{name!r}] cannot be measured: {error}") from error
    if any(np.issubdtype(s.dtype, np.complexfloating) for s in jax.tree.leaves(shapes)):
        raise ValueError(f"record[{name!r}] must be real, got complex numbers")
    size = 8 * sum(int(np.prod(s.shape)) for s in jax.tree.leaves(shapes))
    if size * len(setup.save_at) > LARGE_BYTES:
        warnings.warn(
            f"record[{name!r}] will take {size * len(setup.save_at) / 2**30:.1f} GiB "
            f"({len(setup.save_at)} saves of {size / 2**20:.0f} MiB): fewer save_at, or an "
            "observable that says less, would do with less",
            stacklevel=4,
        )
    return True
