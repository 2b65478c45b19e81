"""The same start with many draws, and means over them."""

from typing import Any

import numpy as np
import xarray as xr

from ..prelude import Ensemble, Measured, Setup, measured

APART = 8192  # keys of two instances; more than any ensemble has members
EXACT = 0.001  # of the mean of a law that holds for any step: a tenth of what chance may bring
CHANCE = 0.02  # of a mean over an ensemble; the standard error comes on top


def draws(setup: Setup, members: int, **changes: Any) -> Ensemble:
    """Many runs that differ in their draws alone."""
    first = setup.replace(**changes)

    def build(member: int) -> Setup:
        return first.replace(key=setup.key * APART + member)

    return Ensemble(build, {"member": range(members)})


def mean(each: np.ndarray) -> Measured:
    """The mean over members, the first axis, with its standard error."""
    error = np.std(each, axis=0, ddof=1) / np.sqrt(len(each))
    return measured(np.mean(each, axis=0), standard_error=error)


def late(data: xr.Dataset, each: np.ndarray) -> Measured:
    """The mean of (members, saves, …) over members and over the second half of the run."""
    times = np.asarray(data["step" if "step" in data.coords else "time"].values)
    times = times.reshape(-1, times.shape[-1])[0]
    return mean(each[:, times >= times[-1] / 2].mean(axis=1))
