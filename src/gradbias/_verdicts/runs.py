"""Carry out the runs that a theorem asks for."""

from collections.abc import Mapping

import xarray as xr

from .._engine.run import Run
from .._engine.setup import Setup
from .._engine.simulate import simulate
from .._sweeps.sweep import sweep
from ..theorems import Ensemble


def execute(
    wanted: Mapping[str, Setup | Ensemble], progress: bool | None = False
) -> dict[str, Run | xr.Dataset]:
    """Named setups become runs, ensembles become datasets.

    Args:
        wanted: name → Setup or Ensemble.
        progress: as in `simulate`.
    """
    done: dict[str, Run | xr.Dataset] = {}
    for name, what in wanted.items():
        if isinstance(what, Setup):
            done[name] = simulate(what, progress=progress)
        elif isinstance(what, Ensemble):
            done[name] = sweep(what.build, what.over, progress=progress)
        else:
            raise ValueError(
                f"runs[{name!r}] must be a gb.Setup or an Ensemble, got {type(what).__name__}"
            )
    return done
