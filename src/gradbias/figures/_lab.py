"""Where a figure computes: sweeps that go on after an interruption, results that are kept."""

import hashlib
import importlib
import inspect
import io
import json
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .._engine.run import Run
from .._engine.setup import Setup
from .._engine.simulate import simulate
from .._sweeps.sweep import sweep
from ..numerics.checksum import Damaged, with_checksum, without_checksum
from ..numerics.files import write_atomically
from ..numerics.source_version import source_version
from ._figure import Figure, Settings

ENGINE = "h5netcdf"


class Lab:
    """The bench of one figure.

    Args:
        folder: where unfinished sweeps are kept; None keeps nothing.
    """

    def __init__(self, folder: Path | None = None, progress: bool | None = False):
        self._folder = folder
        self._progress = progress
        self._sweeps = 0

    def sweep(
        self, build: Callable[..., Setup], over: Mapping[str, Iterable[Any]], **options: Any
    ) -> xr.Dataset:
        """`gb.sweep` with a store of its own."""
        self._sweeps += 1
        store = None if self._folder is None else self._folder / f"sweep-{self._sweeps}"
        done = sweep(build, over, store=store, progress=self._progress, **options)
        return done.load()

    def simulate(self, setup: Setup, **options: Any) -> Run:
        """`gb.simulate`; one run is not worth a store."""
        return simulate(setup, progress=self._progress, **options)


def computed(
    figure: Figure, settings: Settings, store: Path | None, progress: bool | None = False
) -> xr.Dataset:
    """The data of a figure: from the store if they are there, else computed and kept there."""
    if store is None:
        return _timed(figure, settings, Lab(progress=progress))
    name = f"{figure.id}-{_digest(figure, settings)}"
    kept = store / f"{name}.nc"
    if kept.exists():
        try:
            content = without_checksum(kept.read_bytes())
        except Damaged as error:
            warnings.warn(f"{kept} is damaged ({error}): it is computed again", stacklevel=2)
        else:
            return xr.load_dataset(io.BytesIO(content), engine=ENGINE)
    store.mkdir(parents=True, exist_ok=True)
    bench = store / name
    data = _timed(figure, settings, Lab(bench, progress))
    # Made in memory: HDF5 cannot be trusted with a disk that fills up under it.
    write_atomically(kept, with_checksum(_plain(data).to_netcdf(engine=ENGINE)))
    shutil.rmtree(bench, ignore_errors=True)  # its sweeps are in the result now
    return data


def _timed(figure: Figure, settings: Settings, lab: Lab) -> xr.Dataset:
    """Compute; how long that took stays with the data."""
    began = time.perf_counter()
    data: Any = figure.compute(settings, lab)
    if not isinstance(data, xr.Dataset):
        raise TypeError(f"compute of {figure.id} must return a Dataset, got {type(data).__name__}")
    return data.assign_attrs(seconds=time.perf_counter() - began)


def _plain(data: xr.Dataset) -> xr.Dataset:
    """Attributes of sweeps are JSON texts already; booleans are not in NetCDF."""
    return data.map(lambda a: a.astype(np.int8) if a.dtype == bool else a, keep_attrs=True)


def _digest(figure: Figure, settings: Settings) -> str:
    """Of all that decides the data: settings, version, the code of this and of the paper's room."""
    module = importlib.import_module(figure.compute.__module__)
    folder = Path(inspect.getfile(module)).parent
    sources = [path.read_bytes() for path in (*sorted(folder.glob("*.py")), Path(__file__))]
    text = json.dumps([source_version(), dict(settings)], default=lambda v: np.asarray(v).tolist())
    return hashlib.sha256(b"\0".join([text.encode(), *sources])).hexdigest()[:12]
