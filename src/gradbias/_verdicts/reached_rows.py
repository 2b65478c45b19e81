"""The part of a run that happened: what theorems see of it ends where the run stopped."""

import dataclasses
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from .._engine.run import Run
from .._engine.run import dataset as dataset_of
from .._engine.setup import Setup
from .._engine.status import Ending

LASTED = (Ending.REACHED_STEPS, Ending.REACHED_TIME)
WITHOUT_END = (Ending.DIVERGED, Ending.INTEGRATOR_FAILED)
# Setup → saves → the same with these: theorems that see one run share what is known of its setup.
_ENDED: weakref.WeakKeyDictionary[Setup, dict[bytes, Setup]] = weakref.WeakKeyDictionary()


def reached(runs: Mapping[str, Any]) -> dict[str, Any]:
    """The runs without the saves that they did not live to see.

    Rows after a stop are NaN or repeat the last state: neither is the state at that time. A run
    that is alone gets a row for where it stopped. Runs that belong together and have the same
    number of saves keep as many as the shortest, because theorems compare them row by row.

    Args:
        runs: name → Run; anything else stays as it is.
    """
    known = {name: run for name, run in runs.items() if _has_setup(run)}
    kept = {name: saves_reached(run) for name, run in known.items()}
    if len(known) > 1 and len({len(run.setup.save_at) for run in known.values()}) == 1:
        least = min(kept.values())
        return {**runs, **{name: _cut(run, least) for name, run in known.items()}}
    cut = {name: _with_end(_cut(run, kept[name]), run) for name, run in known.items()}
    return {**runs, **cut}


def of_same_saves(setup: Setup, runs: Mapping[str, Any]) -> Setup:
    """The setup that predictions are made for, with the saves that its runs have reached.

    Args:
        setup: as it was before the runs.
        runs: what `reached` returned; its own is called "run", or the first of them.
    """
    run: Any = runs.get("run", next(iter(runs.values()), None))
    if not _has_setup(run) or np.array_equal(run.setup.save_at, setup.save_at):
        return setup
    if setup.dynamics.axis != run.setup.dynamics.axis:
        return setup
    mine, theirs = np.asarray(setup.save_at), np.asarray(run.setup.save_at)
    begun = min(len(mine), len(theirs) - 1)
    if len(theirs) > len(mine) + 1 or not np.array_equal(mine[:begun], theirs[:begun]):
        return setup  # the theorem has chosen its own saves
    same = _ENDED.setdefault(setup, {})
    return same.setdefault(theirs.tobytes(), setup.replace(save_at=theirs))


def saves_reached(run: Run) -> int:
    """How many saves come before the stop, or at it."""
    assert run.setup is not None
    at = np.asarray(run.setup.save_at)
    ending = run.status.ending
    if ending in LASTED:
        return len(at)
    before = at < run.status.at if ending is Ending.DIVERGED else at <= run.status.at
    return max(int(np.sum(before)), 1)


def _has_setup(run: Any) -> bool:
    return isinstance(run, Run) and run.setup is not None


def _cut(run: Run, count: int) -> Run:
    assert run.setup is not None
    at = np.asarray(run.setup.save_at)
    if count >= len(at):
        return run
    setup = run.setup.replace(save_at=at[:count])
    data = run.data.isel({run.status.axis: slice(0, count)})
    return dataclasses.replace(run, setup=setup, data=data)


def _with_end(cut: Run, run: Run) -> Run:
    """With a row for the stop, where saves were cut off and it is not one itself."""
    assert cut.setup is not None and run.setup is not None
    at, stop = np.asarray(cut.setup.save_at), run.status.at
    whole = len(at) == len(run.setup.save_at)
    if whole or run.end is None or run.status.ending in WITHOUT_END or stop <= at[-1]:
        return cut
    last = run.setup.replace(save_at=[stop])
    values = {name: _rows(value) for name, value in run.end.items()}
    row = dataset_of(last, values, run.status)
    data = xr.concat([cut.data, row], run.status.axis, combine_attrs="override")
    return dataclasses.replace(cut, setup=run.setup.replace(save_at=[*at, stop]), data=data)


def _rows(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rows(leaf) for name, leaf in value.items()}
    return np.asarray(value)[None]
