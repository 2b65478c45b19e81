"""What the end of a run keeps it from deciding."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from .._engine.run import Run
from .._engine.status import Ending
from .reached_rows import LASTED, WITHOUT_END

CONVERGED = (Ending.CONVERGED, Ending.CONVERGED_TO_TOLERANCE)
# A run that does not move keeps everything; one that has no end has no numbers.
DECIDES_NOTHING = (*WITHOUT_END, Ending.STEPS_TOO_SMALL)
AT_THE_END = ("final", "theta", "end")  # attributes of a run that speak of where it ended


def trouble(run: Run | xr.Dataset, asked: bool = False) -> str:
    """Why a run, or one member of an ensemble, has not come to its end; empty if it has.

    Args:
        run: a run, or the Dataset of a sweep.
        asked: of a Dataset: did its members have a gap to reach?
    """
    if isinstance(run, xr.Dataset):
        return _of_members(run, (*LASTED, *CONVERGED) if not asked else CONVERGED)
    ending = run.status.ending
    if ending in CONVERGED or (ending in LASTED and not run.status.asked):
        return ""
    return _sentence(run)


def broken_off(run: Run | xr.Dataset) -> str:
    """Why not even the course of a run can be trusted; empty if it can."""
    if isinstance(run, xr.Dataset):
        return _of_members(run, tuple(e for e in Ending if e not in DECIDES_NOTHING))
    return _sentence(run) if run.status.ending in DECIDES_NOTHING else ""


def _sentence(run: Run) -> str:
    return f"the run ended as `{run.status}`: {run.status.sentence.split('.')[0]}"


def _of_members(runs: xr.Dataset, good: tuple[Ending, ...]) -> str:
    if "status" not in runs:
        return ""
    codes = np.ravel(runs["status"].values)
    bad = codes[~np.isin(codes, good)]
    if not len(bad):
        return ""
    words = ", ".join(dict.fromkeys(Ending(int(code)).words for code in bad))
    return f"{len(bad)} of {len(codes)} members ended as `{words}`"


class EndReads:
    """Runs to measure on, which note whether the measurement looks at where they ended.

    Attributes:
        any: did it?
    """

    def __init__(self) -> None:
        self.any = False

    def watched(self, runs: Mapping[str, Any]) -> dict[str, Any]:
        """The same runs, watched; anything else stays as it is."""
        return {n: self._watched(r) if type(r) is Run else r for n, r in runs.items()}

    def _watched(self, run: Run) -> Run:
        reads = self

        class Watched(Run):
            def __getattribute__(self, name: str) -> Any:
                if name in AT_THE_END:
                    reads.any = True
                return super().__getattribute__(name)

        values = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
        return Watched(**values)
