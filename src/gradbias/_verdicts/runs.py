"""Carry out the runs that a theorem asks for."""

from collections.abc import Mapping
from typing import NoReturn

import xarray as xr

from .._engine.run import Run
from .._engine.setup import Setup
from .._engine.simulate import simulate
from .._sweeps.sweep import sweep
from ..theorems import Ensemble


class NotRecorded:
    """In the place of the final parameters of a member whose sweep did not record them."""

    def __getitem__(self, *_: object) -> NoReturn:
        raise ValueError(
            "the parameters were not recorded: put gb.observe.params into the Setup's record=, or "
            "use gb.check on this member"
        )

    values = items = keys = __iter__ = __getitem__


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
