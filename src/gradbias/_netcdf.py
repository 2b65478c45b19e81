"""Runs on disk: one NetCDF file with the data, the final parameters and the setup."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ._plain import NotPlain, decode, encode
from ._run import Run, _flat
from ._status import Ending, Status

ENGINE = "h5netcdf"
FORMAT = 1


def write(run: Run, path: str | os.PathLike[str]) -> None:
    """Write a run; the file appears under its name only once it is complete."""
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"path: the folder {path.parent} does not exist")
    arrays: list[np.ndarray] = []
    try:
        setup = None if run.setup is None else encode(run.setup, arrays)
    except NotPlain:
        setup, arrays = None, []
    about = {
        "format": FORMAT,
        "ending": run.status.ending.name,
        "at": run.status.at,
        "axis": run.status.axis,
        "stats": run.stats,
        "setup": setup,
    }
    final = dict(_flat(run.final)) | ({} if run.theta is None else {" theta": run.theta})
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        run.data.to_netcdf(temporary, engine=ENGINE)
        _packed(final, {}).to_netcdf(temporary, mode="a", group="final", engine=ENGINE)
        _packed({f"a{i}": a for i, a in enumerate(arrays)}, {"about": json.dumps(about)}).to_netcdf(
            temporary, mode="a", group="setup", engine=ENGINE
        )
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read(path: str | os.PathLike[str]) -> Run:
    """Read what `write` wrote."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"path: there is no file {path}")
    try:
        data = xr.load_dataset(path, engine=ENGINE)
        final = _unpacked(xr.load_dataset(path, engine=ENGINE, group="final"))
        stored = xr.load_dataset(path, engine=ENGINE, group="setup")
        about = json.loads(stored.attrs["about"])
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"path: {path} is not a run that gradbias saved: {error}") from error
    if about["format"] != FORMAT:
        raise ValueError(f"path: {path} has format {about['format']}, this version reads {FORMAT}")
    arrays = list(_unpacked(stored).values())
    setup = None if about["setup"] is None else decode(about["setup"], arrays)
    theta = final.pop(" theta", None)
    status = Status(Ending[about["ending"]], about["at"], about["axis"])
    return Run(setup, data, final, theta, status, about["stats"])


def _packed(arrays: dict[str, np.ndarray], attrs: dict[str, Any]) -> xr.Dataset:
    """Arrays as flat variables; NetCDF has no axis of length zero, so shapes go beside them."""
    shapes = [[name, list(np.shape(a)), np.asarray(a).dtype.str] for name, a in arrays.items()]
    variables = {
        f"v{i}": ((f"n{i}",), np.ravel(a)) for i, a in enumerate(arrays.values()) if np.size(a)
    }
    return xr.Dataset(variables, attrs={**attrs, "shapes": json.dumps(shapes)})


def _unpacked(dataset: xr.Dataset) -> dict[str, np.ndarray]:
    result = {}
    for i, (name, shape, dtype) in enumerate(json.loads(dataset.attrs["shapes"])):
        flat = dataset[f"v{i}"].values if f"v{i}" in dataset else np.zeros(0, dtype)
        result[name] = flat.reshape(shape)
    return result
