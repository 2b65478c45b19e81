"""The chunks of a store as one NetCDF file, written piece by piece and opened lazily.

Its checksum is looked at whenever a sweep opens it; what is read later is read from the same file.
"""

import contextlib
import errno
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ..numerics.checksum import append_checksum, check_file
from ..numerics.files import replacing
from ..numerics.warn import warn_user
from .chunking import Chunk
from .grid import Grid
from .results import ChunkResult, check_shape, status_and_end
from .store import Store

if TYPE_CHECKING:
    import h5netcdf

ENGINE = "h5netcdf"


def assembled(
    store: Store,
    grid: Grid,
    skeleton: xr.Dataset,
    axis: str,
    compute: Callable[[list[Chunk]], None],
) -> xr.Dataset:
    """The Dataset of a store; its values are read when they are used.

    Args:
        store: where the chunks are.
        grid: the axes.
        skeleton: a Dataset without variables.
        axis: of the saves.
        compute: puts chunks into the store.
    """
    path = store.path / "sweep.nc"
    stored = _opened(path, store.key)
    if stored is None:
        compute(store.missing())
        damaged = _write(path, store, grid, skeleton, axis)
        if damaged:
            compute(damaged)
            damaged = _write(path, store, grid, skeleton, axis)
        stored = None if damaged else _opened(path, store.key)
    if stored is None:
        raise RuntimeError(f"store: what is written to {store.path} cannot be read back")
    # Axes and attributes as they are in memory: files know fewer types.
    whole = xr.Dataset(dict(stored.data_vars), skeleton.coords, skeleton.attrs)
    whole.set_close(stored.close)
    return whole


def _opened(path: Path, key: str) -> xr.Dataset | None:
    if not path.exists():
        return None
    try:
        check_file(path)
        stored = xr.open_dataset(path, engine=ENGINE, decode_times=False, drop_variables=[])
    except Exception as error:  # whatever a damaged file makes the libraries below say
        warn_user(f"store: {path} is damaged ({error}): it is made again")
        return None
    if stored.attrs.get("key") == key:
        return stored
    stored.close()
    return None


class _Damaged(Exception):
    """There are chunks that cannot be read."""


def _write(path: Path, store: Store, grid: Grid, skeleton: xr.Dataset, axis: str) -> list[Chunk]:
    """Make one file of all chunks, or none; those that are damaged."""
    import h5netcdf  # brings a library of its own, which a sweep without a store does not need

    damaged: list[Chunk] = []
    results = store.read(damaged)
    first = next(results, None)
    if first is None:
        return damaged
    _check_room(path, first[1], grid)
    with contextlib.suppress(_Damaged), replacing(path) as temporary:
        # xarray knows how to write axes and attributes, h5netcdf how to write a region.
        skeleton.assign_attrs(key=store.key).to_netcdf(temporary, engine=ENGINE)
        with h5netcdf.File(temporary, "a") as file:
            _fill(file, grid, axis, itertools.chain([first], results))
        if damaged:
            raise _Damaged
        append_checksum(temporary)
    return damaged


def _fill(
    file: "h5netcdf.File", grid: Grid, axis: str, results: Iterator[tuple[Chunk, ChunkResult]]
) -> None:
    status = np.zeros(grid.size, np.int64)
    stopped = np.zeros(grid.size)
    variables: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for chunk, piece in results:
        if not variables:
            variables = _declared(file, grid, axis, piece)
            shapes = {name: values.shape for name, values in piece.values.items()}
        members = np.asarray(chunk.members)
        status[members] = piece.status
        stopped[members] = piece.stopped
        for name, values in piece.values.items():
            check_shape(name, shapes[name], values.shape)
            for rows, where in _runs(members, grid.shape):
                variables[name][where] = values[rows, :-1]
                variables[f"{name}_end"][where] = values[rows, -1]
    for name, (dims, values, *attrs) in status_and_end(grid, status, stopped).items():
        variable = file.create_variable(name, dims, data=values)
        variable.attrs.update(attrs[0] if attrs else {})


def _declared(file: "h5netcdf.File", grid: Grid, axis: str, first: ChunkResult) -> dict[str, Any]:
    """Empty variables of the whole size."""
    made = {}
    for name, values in first.values.items():
        dims = first.dims[name]
        _, rows, *shape = values.shape
        for dim, size in zip((axis, *dims), (rows - 1, *shape), strict=True):
            if dim not in file.dimensions:
                file.dimensions[dim] = size
        made[name] = file.create_variable(name, (*grid.names, axis, *dims), np.float64)
        made[f"{name}_end"] = file.create_variable(f"{name}_end", (*grid.names, *dims), np.float64)
    return made


def _runs(members: np.ndarray, shape: tuple[int, ...]) -> Iterator[tuple[slice, tuple[Any, ...]]]:
    """Members that are neighbours on the last axis, as rows of a piece and a place in the grid."""
    breaks = (np.diff(members) != 1) | (members[1:] % shape[-1] == 0)
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(members)]
    for start, stop in itertools.pairwise(edges):
        *outer, last = (int(i) for i in np.unravel_index(members[start], shape))
        yield slice(start, stop), (*outer, slice(last, last + stop - start))


def _check_room(path: Path, first: ChunkResult, grid: Grid) -> None:
    """HDF5 cannot be trusted with a disk that fills up under it."""
    size = grid.size * sum(v.nbytes for v in first.values.values()) // max(len(first.status), 1)
    free = shutil.disk_usage(path.parent).free
    if size > 0.95 * free:
        raise OSError(
            errno.ENOSPC,
            f"store: all chunks are stored, but sweep.nc needs {size / 2**20:.0f} MiB and "
            f"{free / 2**20:.0f} are free; the same call goes on when there is room",
            str(path),
        )
