"""The chunks of a store as one NetCDF file, written piece by piece and opened lazily.

Its checksum is looked at whenever a sweep opens it; what is read later is read from the same file.
"""

import errno
import itertools
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..numerics.checksum import append_checksum, check_file
from .grid import Grid
from .results import Piece, check_shape, status_and_end
from .store import Store, unfinished

ENGINE = "h5netcdf"


def assembled(store: Store, grid: Grid, skeleton: xr.Dataset, axis: str) -> xr.Dataset:
    """The Dataset of a store whose chunks are all there; its values are read when they are used."""
    path = store.path / "sweep.nc"
    found = _opened(path, store.key)
    if found is None:
        _write(path, store, grid, skeleton, axis)
        found = _opened(path, store.key)
    if found is None:
        raise RuntimeError(f"store: {path} cannot be read back")
    # Axes and attributes as they are in memory: files know fewer types.
    whole = xr.Dataset(dict(found.data_vars), skeleton.coords, skeleton.attrs)
    whole.set_close(found.close)
    return whole


def is_complete(store: Store) -> bool:
    """Is there a file with all results?"""
    found = _opened(store.path / "sweep.nc", store.key)
    if found is None:
        return False
    found.close()
    return True


def _opened(path: Path, key: str) -> xr.Dataset | None:
    if not path.exists():
        return None
    try:
        check_file(path)
        found = xr.open_dataset(path, engine=ENGINE, decode_times=False, drop_variables=[])
    except Exception as error:  # whatever a damaged file makes the libraries below say
        warnings.warn(f"store: {path} is damaged ({error}): it is made again", stacklevel=6)
        return None
    if found.attrs.get("key") == key:
        return found
    found.close()
    return None


def _write(path: Path, store: Store, grid: Grid, skeleton: xr.Dataset, axis: str) -> None:
    import h5netcdf  # brings a library of its own, which a sweep without a store does not need

    first = store.get(store.chunks[0])
    _check_room(path, first, grid)
    temporary = unfinished(path)
    try:
        # xarray knows how to write axes and attributes, h5netcdf how to write a region.
        skeleton.assign_attrs(key=store.key).to_netcdf(temporary, engine=ENGINE)
        with h5netcdf.File(temporary, "a") as file:
            _fill(file, store, grid, axis, first)
        append_checksum(temporary)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _fill(file: Any, store: Store, grid: Grid, axis: str, first: Piece) -> None:
    variables = _declared(file, grid, axis, first)
    status, stopped = np.zeros(grid.size, np.int64), np.zeros(grid.size)
    for chunk in store.chunks:
        piece, members = store.get(chunk), np.asarray(chunk.members)
        status[members], stopped[members] = piece.status, piece.stopped
        for name, values in piece.values.items():
            check_shape(name, first.values[name].shape, values.shape)
            for rows, where in _runs(members, grid.shape):
                variables[name][where] = values[rows, :-1]
                variables[f"{name}_end"][where] = values[rows, -1]
    for name, (dims, values, *attrs) in status_and_end(grid, status, stopped).items():
        variable = file.create_variable(name, dims, data=values)
        variable.attrs.update(attrs[0] if attrs else {})


def _declared(file: Any, grid: Grid, axis: str, first: Piece) -> dict[str, Any]:
    """Empty variables of the whole size."""
    made = {}
    for name, values in first.values.items():
        dims, (_, rows, *shape) = first.dims[name], values.shape
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


def _check_room(path: Path, first: Piece, grid: Grid) -> None:
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
