"""The part of a run that happened: what theorems see of it ends where the run stopped."""

import dataclasses
import weakref

import jax
import numpy as np
import xarray as xr

from .._engine.run import Run
from .._engine.run import dataset as dataset_of
from .._engine.setup import Setup
from .._engine.status import Ending
from ..theorems import Runs

LASTED = (Ending.REACHED_STEPS, Ending.REACHED_TIME)
WITHOUT_END = (Ending.DIVERGED, Ending.INTEGRATOR_FAILED)
# Setup → saves → the same with these: theorems that see one run share what is known of its setup.
_ENDED: weakref.WeakKeyDictionary[Setup, dict[bytes, Setup]] = weakref.WeakKeyDictionary()


def reached(runs: Runs) -> dict[str, Run | xr.Dataset]:
    """The runs without the saves that they did not live to see.

    Rows after a stop are NaN or repeat the last state: neither is the state at that time. A run
    that is alone gets a row for where it stopped. Runs that belong together and have the same
    number of saves keep as many as the shortest, because theorems compare them row by row.

    Args:
        runs: name → Run; anything else stays as it is.
    """
    known = {name: run for name, run in runs.items() if isinstance(run, Run) and run.setup}
    kept = {name: saves_reached(run) for name, run in known.items()}
    if len(known) > 1 and len({len(_setup_of(run).save_at) for run in known.values()}) == 1:
        least = min(kept.values())
        return {**runs, **{name: _cut(run, least) for name, run in known.items()}}
    cut = {name: _with_end(_cut(run, kept[name]), run) for name, run in known.items()}
    return {**runs, **cut}


def of_same_saves(setup: Setup, runs: Runs) -> Setup:
    """The setup that predictions are made for, with the saves that its runs have reached.

    Args:
        setup: as it was before the runs.
        runs: what `reached` returned; its own is called "run", or the first of them.
    """
    run = runs.get("run", next(iter(runs.values()), None))
    ran = run.setup if isinstance(run, Run) else None
    if ran is None or np.array_equal(ran.save_at, setup.save_at):
        return setup
    if setup.dynamics.axis != ran.dynamics.axis:
        return setup
    mine = np.asarray(setup.save_at)
    theirs = np.asarray(ran.save_at)
    begun = min(len(mine), len(theirs) - 1)
    if len(theirs) > len(mine) + 1 or not np.array_equal(mine[:begun], theirs[:begun]):
        return setup  # the theorem has chosen its own saves
    same = _ENDED.setdefault(setup, {})
    return same.setdefault(theirs.tobytes(), setup.replace(save_at=theirs))


def saves_reached(run: Run) -> int:
    """How many saves come before the stop, or at it."""
    at = np.asarray(_setup_of(run).save_at)
    ending = run.status.ending
    if ending in LASTED:
        return len(at)
    before = at < run.status.at if ending is Ending.DIVERGED else at <= run.status.at
    return max(int(np.sum(before)), 1)


def _setup_of(run: Run) -> Setup:
    assert run.setup is not None
    return run.setup


def _cut(run: Run, count: int) -> Run:
    at = np.asarray(_setup_of(run).save_at)
    if count >= len(at):
        return run
    setup = _setup_of(run).replace(save_at=at[:count])
    data = run.data.isel({run.status.axis: slice(0, count)})
    return dataclasses.replace(run, setup=setup, data=data)


def _with_end(cut: Run, run: Run) -> Run:
    """With a row for the stop, where saves were cut off and it is not one itself."""
    setup = _setup_of(run)
    at = np.asarray(_setup_of(cut).save_at)
    stop = run.status.at
    whole = len(at) == len(setup.save_at)
    if whole or run.end is None or run.status.ending in WITHOUT_END or stop <= at[-1]:
        return cut
    # One row, as of a run that was saved there alone.
    values = jax.tree.map(lambda leaf: np.asarray(leaf)[None], run.end)
    row = dataset_of(setup.replace(save_at=[stop]), values, run.status)
    data = xr.concat([cut.data, row], run.status.axis, combine_attrs="override")
    return dataclasses.replace(cut, setup=setup.replace(save_at=[*at, stop]), data=data)
