"""Runs on disk: one NetCDF file with the data, the final parameters and the setup."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..numerics.checksum import with_checksum, without_checksum
from ..numerics.files import write_atomically
from ..numerics.pytrees import named_leaves
from .run import Run
from .serialise import NotPlain, decode, encode
from .setup import Setup
from .status import Ending, Status

ENGINE = "h5netcdf"
FORMAT = 1


def write(run: Run, path: str | os.PathLike[str]) -> None:
    """Write a run; the file appears under its name only once it is complete."""
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"path: the folder {path.parent} does not exist")
    # Made in memory: HDF5 cannot be trusted with a disk that fills up under it.
    write_atomically(path, with_checksum(_content(run)))


def _content(run: Run) -> memoryview:
    arrays: list[np.ndarray] = []
    setup, not_stored = _storable(run)
    about = {
        "format": FORMAT,
        "ending": run.status.ending.name,
        "at": run.status.at,
        "axis": run.status.axis,
        "asked": run.status.asked,
        "reason": run.status.reason,
        "stats": run.stats,
        "setup": encode(setup, arrays),
        "not_stored": not_stored,
        "final": _plainly(run.final, dict(named_leaves(run.final)), arrays),
        "theta": encode(run.theta, arrays),
    }
    groups = {"/": run.data, "/about": _packed(arrays, {"about": json.dumps(about)})}
    return xr.DataTree.from_dict(groups).to_netcdf(engine=ENGINE)


def _storable(run: Run) -> tuple[Setup | None, str]:
    """The setup as far as a file can hold it, and a sentence on what it cannot hold."""
    setup = run.setup
    if setup is None or _is_plain(setup):
        return setup, run.not_stored
    parts = ("problem", "net", "params", "dynamics", "until")
    own = [name for name in parts if not _is_plain(getattr(setup, name))]
    if own:
        words = " and ".join(f"its {name}" for name in own)
        return None, (
            f"run.setup is None: the file does not hold your own code, of which {words} "
            f"{'is' if len(own) == 1 else 'are'} made; data and final parameters are complete."
        )
    record = {name: f for name, f in setup.record.items() if _is_plain(f)}
    lacks = [name for name in setup.record if name not in record]
    kept = setup.replace(record=record or None)
    return kept, (
        f"run.setup.record lacks {', '.join(lacks)}: the file does not hold the code of these "
        "observables; their values are in run.data."
    )


def _is_plain(value: object) -> bool:
    try:
        encode(value, [])
    except NotPlain:
        return False
    return True


def _plainly(value: object, otherwise: object, arrays: list[np.ndarray]) -> object:
    """A value as JSON, or another one where it holds code of the user's own."""
    kept = len(arrays)
    try:
        return encode(value, arrays)
    except NotPlain:
        del arrays[kept:]
        return encode(otherwise, arrays)


def read(path: str | os.PathLike[str]) -> Run:
    """Read what `write` wrote."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"path: there is no file {path}")
    try:
        content = without_checksum(path.read_bytes())
        data = xr.load_dataset(io.BytesIO(content), engine=ENGINE)
        stored = xr.load_dataset(io.BytesIO(content), engine=ENGINE, group="about")
        return _run(data, stored)
    except Exception as error:  # whatever a damaged file makes the libraries below say
        raise ValueError(f"path: {path} is not a run that gradbias saved: {error}") from error


def _run(data: xr.Dataset, stored: xr.Dataset) -> Run:
    about = json.loads(stored.attrs["about"])
    arrays = _unpacked(stored)
    if about["format"] != FORMAT:
        raise ValueError(f"it has format {about['format']}, this version reads {FORMAT}")
    setup, final, theta = (decode(about[name], arrays) for name in ("setup", "final", "theta"))
    told = about["at"], about["axis"], about["asked"], about.get("reason", "")
    status = Status(Ending[about["ending"]], *told)
    said = about.get("not_stored", "")
    return Run(setup, data, final, theta, status, about["stats"], not_stored=said)


def _packed(arrays: list[np.ndarray], attrs: dict[str, Any]) -> xr.Dataset:
    """Arrays as flat variables; NetCDF has no axis of length zero, so shapes go beside them."""
    shapes = [[list(np.shape(a)), np.asarray(a).dtype.str] for a in arrays]
    variables = {f"v{i}": ((f"n{i}",), np.ravel(a)) for i, a in enumerate(arrays) if np.size(a)}
    return xr.Dataset(variables, attrs={**attrs, "shapes": json.dumps(shapes)})


def _unpacked(dataset: xr.Dataset) -> list[np.ndarray]:
    return [
        (dataset[f"v{i}"].values if f"v{i}" in dataset else np.zeros(0, dtype)).reshape(shape)
        for i, (shape, dtype) in enumerate(json.loads(dataset.attrs["shapes"]))
    ]
