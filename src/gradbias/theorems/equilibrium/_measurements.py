"""The same start with many draws, and means over them."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from .._claims import SIGMAS, Measured, equals, measured
from .._theorem import Ensemble, Told

APART = 4096  # keys of two instances; more than any ensemble has members
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


def late(data: Any, each: np.ndarray) -> Measured:
    """The mean of (members, saves, …) over members and over the second half of the run."""
    times = np.asarray(data["step" if "step" in data.coords else "time"].values)
    times = times.reshape(-1, times.shape[-1])[0]
    return mean(each[:, times >= times[-1] / 2].mean(axis=1))


def along_paths(name: str, told: np.ndarray, scale: float) -> Told:
    """The mean of predictions along members' own paths, which has a standard error too."""
    error = float(np.max(np.std(told, axis=0, ddof=1))) / np.sqrt(len(told))
    claim = equals(told.mean(axis=0), scale=scale)
    return Told({name: claim}, expected={name: SIGMAS * error / scale if error > 0 else 0.0})
