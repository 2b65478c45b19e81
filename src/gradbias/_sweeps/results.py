"""What a chunk of a sweep comes to, and all of them as one Dataset."""

import json
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from .._engine.host_loop import Prepared
from .._engine.measurement import trace_measurement
from .._engine.run import CONVENTION, configuration, variables_of, versions
from .._engine.setup import Setup
from .._engine.simulate import FinishedMembers
from .._engine.status import Ending
from .grid import Grid

LARGE_BYTES = 2**31  # results that get a warning before they are collected in memory


class Outline(NamedTuple):
    """The variables that members will make, as far as that is known before they run.

    Attributes:
        dims: the names of their axes.
        shapes: the lengths of these.
    """

    dims: dict[str, tuple[str, ...]]
    shapes: dict[str, tuple[int, ...]]

    @property
    def bytes(self) -> int:
        """Of one member at one save."""
        return 8 * sum(int(np.prod(shape)) for shape in self.shapes.values())


class ChunkResult(NamedTuple):
    """The results of the members of a chunk.

    Attributes:
        status: how each ended, as a number.
        stopped: where.
        values: every variable, (members, saves and the end, …).
        dims: the names of its own axes.
    """

    status: np.ndarray
    stopped: np.ndarray
    values: dict[str, np.ndarray]
    dims: dict[str, tuple[str, ...]]


def outline_of(start: Prepared) -> Outline:
    """Trace the observables of a member; those that jax cannot trace are left out."""
    setup = start.setup
    shapes = {}
    for name, f in start.record.items():
        try:
            traced = trace_measurement(f, setup.problem, setup.net, setup.params)
            shapes[name] = traced.out_info
        except Exception:  # a run of it says what is wrong, in the user's own words
            continue
    if start.system.tally is not None:
        shapes |= jax.eval_shape(start.system.tally, start.params, start.params, 0.0)
    empty = jax.tree.map(lambda s: np.empty((0, 1, *s.shape)), shapes)
    found = variables_of(setup, empty)
    return Outline(
        {name: dims for name, (dims, _) in found.items()},
        {name: array.shape[2:] for name, (_, array) in found.items()},
    )


def chunk_result_of(starts: list[Prepared], done: FinishedMembers, count: int) -> ChunkResult:
    """The results of the first `count` members; the others only fill up the chunk."""
    found = variables_of(starts[0].setup, done.values)
    return ChunkResult(
        np.asarray([int(s.ending) for s in done.statuses[:count]], np.int64),
        np.asarray([s.at for s in done.statuses[:count]], np.float64),
        {n: np.ascontiguousarray(np.swapaxes(v, 0, 1)[:count]) for n, (_, v) in found.items()},
        {name: dims for name, (dims, _) in found.items()},
    )


def check_names(grid: Grid, outlines: Iterable[tuple[int, Outline]]) -> None:
    """Variables must have one shape in all members, and names of their own."""
    first: tuple[int, Outline] | None = None
    for member, outline in outlines:
        taken = {*grid.names, "status", "stopped_at"}
        made = [*outline.dims, *(f"{name}_end" for name in outline.dims)]
        axes = {dim for dims in outline.dims.values() for dim in dims}
        for name in [*made, *axes]:
            if name in taken or (name in outline.dims and f"{name}_end" in outline.dims):
                raise ValueError(f"record: {name!r} is a name that the sweep needs; choose another")
        first = first or (member, outline)
        for name, here in outline.shapes.items():
            before = first[1].shapes.get(name, here)
            if before != here:
                raise ValueError(
                    f"record: {name!r} must have one shape in all members, got {before} at "
                    f"{grid.point(first[0])} and {here} at {grid.point(member)}"
                )


def warn_if_large(grid: Grid, outline: Outline, rows: int) -> None:
    """Say so before results that fill the memory are collected."""
    size = grid.size * rows * outline.bytes
    if size > LARGE_BYTES:
        warnings.warn(
            f"the results of this sweep will take {size / 2**30:.1f} GiB of memory: with store= a "
            "folder they stay on disk; fewer save_at, or observables that say less, would do with "
            "less",
            stacklevel=4,
        )


class Results:
    """Results of all members, piece by piece, in memory."""

    def __init__(self, grid: Grid):
        self.grid = grid
        self.status = np.zeros(grid.size, np.int64)
        self.stopped = np.zeros(grid.size)
        self.values: dict[str, np.ndarray] = {}
        self.dims: dict[str, tuple[str, ...]] = {}

    def put(self, members: list[int], piece: ChunkResult) -> None:
        """The results of some members."""
        self.status[members] = piece.status
        self.stopped[members] = piece.stopped
        for name, values in piece.values.items():
            if name not in self.values:
                self.dims[name] = piece.dims[name]
                if len(members) == self.grid.size:  # all of them, and members are in order
                    self.values[name] = values
                    continue
                self.values[name] = np.full((self.grid.size, *values.shape[1:]), np.nan)
            check_shape(name, self.values[name].shape, values.shape)
            self.values[name][members] = values

    def dataset(self, skeleton: xr.Dataset, axis: str) -> xr.Dataset:
        """Everything, with the named axes."""
        names = self.grid.names
        shape = self.grid.shape
        found = skeleton.assign(status_and_end(self.grid, self.status, self.stopped))
        variables: dict[str, Any] = {}
        for name, values in self.values.items():
            whole = values.reshape(*shape, *values.shape[1:])
            before = (slice(None),) * len(names)
            dims = self.dims[name]
            variables[name] = (*names, axis, *dims), whole[(*before, slice(0, -1))]
            variables[f"{name}_end"] = (*names, *dims), whole[(*before, -1)]
        return found.assign(variables)


def check_shape(name: str, whole: tuple[int, ...], piece: tuple[int, ...]) -> None:
    """A piece must fit beside those that are there already."""
    if whole[1:] != piece[1:]:
        raise ValueError(
            f"record: {name!r} must have one shape in all members, got {whole[2:]} and {piece[2:]}"
        )


def status_and_end(grid: Grid, status: np.ndarray, stopped: np.ndarray) -> dict[str, Any]:
    """The two variables that every sweep has."""
    flags = {
        "flag_values": [int(e) for e in Ending],
        "flag_meanings": " ".join(e.name.lower() for e in Ending),
    }
    return {
        "status": (grid.names, status.reshape(grid.shape), flags),
        "stopped_at": (grid.names, stopped.reshape(grid.shape)),
    }


def skeleton_of(grid: Grid, coords: dict[str, Any], first: Setup) -> xr.Dataset:
    """A Dataset without variables: axes and attributes, with the configuration of one member."""
    attrs = {
        "configuration": json.dumps({**configuration(first), "over": grid.axes}),
        "convention": json.dumps(CONVENTION),
        "versions": json.dumps(versions()),
        "net": repr(first.net),
    }
    return xr.Dataset({}, {**grid.axes, **coords}, attrs)
