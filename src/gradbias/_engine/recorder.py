"""Observables of the saved states: which are measured with the steps, which after them."""

import warnings
from collections.abc import Callable, Collection
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import Jaxpr

from ..numerics.jaxprs import inside
from ..numerics.precision import to_numpy, warn_of_single
from ..numerics.types import PyTree
from ..observe import Running
from ..observe.base import FunctionObservable, OfPredictor
from .measurement import View, Views, trace_measurement
from .setup import Setup
from .stacking import block, bytes_of, pick, stack

WIDE_BYTES = 2**20  # of a lift; larger ones are not handed over where nobody looks at layers
LARGE_BYTES = 2**30  # results above this get a warning before the run starts


@eqx.filter_jit
def lifted(lift, params) -> PyTree:
    """All parameters of a reduced state."""
    return lift(params)


class Recorder:
    """Collects what is measured at the saves of all members, and hands out arrays.

    Results have a row for every save and one more for the end, then an axis of members.

    Args:
        setups: the members; of one shape, with equal records and numbers of saves.
        lifts: from a reduced state to all parameters; None where states are not reduced.
        differ: the names of the leaves of views that members have each for itself; None looks at
            these members alone.
        records: what `bound_record` made of the setups; None makes it.

    Attributes:
        views: what is measured with the steps.
        plain: observables that cannot be: they need the states.
        row_bytes: what is measured of all members at one save.
    """

    def __init__(
        self,
        setups: list[Setup],
        lifts: list[Any],
        differ: Collection[str] | None = None,
        records: list[dict[str, Any]] | None = None,
    ):
        self.setups = setups
        self.lifts = lifts
        bound = [bound_record(setup) for setup in setups] if records is None else records
        sizes = {name: _traced_bytes(setups[0], name, f) for name, f in bound[0].items()}
        traced = [name for name, size in sizes.items() if size is not None]
        self.plain = {name: [b[name] for b in bound] for name in bound[0] if name not in traced}
        if all(isinstance(bound[0][name], OfPredictor) for name in traced):
            wide = bytes_of(lifts[0]) > WIDE_BYTES
            lifts = [lift.for_predictor() for lift in lifts] if wide else lifts
        views = [
            View({name: b[name] for name in traced}, setup.problem, setup.net, lift)
            for b, setup, lift in zip(bound, setups, lifts, strict=True)
        ]
        alone = any(isinstance(f, FunctionObservable) for f in setups[0].record.values())
        self.views = Views(stack(views, differ), alone)
        self.row_bytes = len(setups) * sum(size or 0 for size in sizes.values())
        self.total = len(setups[0].save_at) + 1
        self.seen = np.zeros((len(setups), self.total), bool)
        self.results: dict[str, Any] = {}

    def take(
        self, members: np.ndarray, rows: np.ndarray, values: dict[str, PyTree], params: PyTree
    ) -> None:
        """Keep what was measured of some members at some saves.

        Args:
            members: their indices.
            rows: of the saves.
            values: what was measured, and the sums, (members, rows, …).
            params: the states, (members, rows, …); looked at by plain observables only.
        """
        where = block(members, rows)
        self._write_once(where)
        if self.plain:
            values = values | self._measure_plain(members, params)
        for name, value in values.items():
            result = self._result(name, value)
            for array, leaf in zip(jax.tree.leaves(result), jax.tree.leaves(value), strict=True):
                if array.shape[2:] != leaf.shape[2:]:
                    raise _uneven(name, f"{array.shape[2:]} and {leaf.shape[2:]}")
                array[where] = leaf

    def repeat_end(self, where: np.ndarray) -> None:
        """What was measured at the end of members holds at these of their saves, too.

        Args:
            where: (members, saves), which.
        """
        where = np.pad(where, ((0, 0), (0, 1)))
        self._write_once(where)
        for array in jax.tree.leaves(self.results):
            array[where] = np.broadcast_to(array[:, -1:], array.shape)[where]

    def finish(self) -> dict[str, Any]:
        """The arrays, with NaN where a member was not at a save."""
        return jax.tree.map(lambda value: value.swapaxes(0, 1), self.results)

    def _write_once(self, where: tuple[slice | np.ndarray, ...] | np.ndarray) -> None:
        """Every row of a member is written at most once, with what was measured there."""
        if self.seen[where].any():
            raise RuntimeError("a row of a result was to be written twice: a defect of gradbias")
        self.seen[where] = True

    def _measure_plain(self, members: np.ndarray, params: PyTree) -> dict[str, Any]:
        """These get NumPy parameters, one state after the other."""
        rows = jax.tree.leaves(params)[0].shape[1]
        tables: dict[str, list[list[Any]]] = {name: [] for name in self.plain}
        for i, member in enumerate(members.tolist()):
            setup = self.setups[member]
            states = [self._state(member, pick(params, (i, j))) for j in range(rows)]
            for name, functions in self.plain.items():
                f = functions[member]
                tables[name].append([f(setup.problem, setup.net, state) for state in states])
        return {
            name: _stacked(name, [_stacked(name, row) for row in table])
            for name, table in tables.items()
        }

    def _state(self, member: int, state: PyTree) -> PyTree:
        lift = self.lifts[member]
        return state if lift is None else to_numpy(lifted(lift, state))

    def _result(self, name: str, value: PyTree) -> PyTree:
        """Members first: that is how results are handed on."""
        if name not in self.results:
            shape = self.seen.shape
            self.results[name] = jax.tree.map(
                lambda v: np.full((*shape, *v.shape[2:]), np.nan), value
            )
        return self.results[name]


def bound_record(setup: Setup) -> dict[str, Any]:
    """The observables of a setup that are measured at saved states, made ready for its data."""
    return {
        name: f.bind(setup.problem, setup.net)
        for name, f in setup.record.items()
        if not isinstance(f, Running)
    }


def _stacked(name: str, values: list[Any]) -> PyTree:
    try:
        return jax.tree.map(lambda *v: np.stack([np.asarray(x, np.float64) for x in v]), *values)
    except (TypeError, ValueError) as error:
        raise _uneven(name, error) from error


def _uneven(name: str, found: str | Exception) -> ValueError:
    return ValueError(
        f"record[{name!r}] must give real numbers of the same shape every time: {found}"
    )


def _traced_bytes(setup: Setup, name: str, observable: Callable[..., PyTree]) -> int | None:
    """The bytes of a measurement; None if it cannot be part of a program.

    That is where jax cannot trace it, and where the program would call Python back: from a thread
    that knows nothing of float64. Also warns before results that fill the memory are collected.
    """
    try:
        traced = trace_measurement(observable, setup.problem, setup.net, setup.params)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
        return None
    except Exception as error:
        raise ValueError(f"record[{name!r}] cannot be measured: {error}") from error
    warn_of_single(f"record[{name!r}]", [*traced.jaxpr.consts, *jax.tree.leaves(observable)])
    shapes = jax.tree.leaves(traced.out_info)
    if any(np.issubdtype(s.dtype, np.complexfloating) for s in shapes):
        raise ValueError(f"record[{name!r}] must be real, got complex numbers")
    size = 8 * sum(int(np.prod(s.shape)) for s in shapes)
    if size * len(setup.save_at) > LARGE_BYTES:
        warnings.warn(
            f"record[{name!r}] will take {size * len(setup.save_at) / 2**30:.1f} GiB "
            f"({len(setup.save_at)} saves of {size / 2**20:.0f} MiB): fewer save_at, or an "
            "observable that says less, would do with less",
            stacklevel=4,
        )
    return None if _calls_back(traced.jaxpr.jaxpr) else size


def _calls_back(jaxpr: Jaxpr) -> bool:
    return any(
        "callback" in equation.primitive.name or any(map(_calls_back, inside(equation)))
        for equation in jaxpr.eqns
    )
