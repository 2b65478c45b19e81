"""What the end of a run was: a minimum, a saddle, a limit, or none of them."""

import numpy as np

from ._chunks import slope
from ._drive import Start, Stop
from ._setup import Setup
from ._status import Ending, Status
from .dynamics._protocol import CONVERGED, DIVERGED, FAILED, FLOOR, RUNNING, STATIONARY

CERTAIN = {
    CONVERGED: Ending.CONVERGED,
    DIVERGED: Ending.DIVERGED,
    FAILED: Ending.INTEGRATOR_FAILED,
}


def status_of(setup: Setup, start: Start, stop: Stop) -> Status:
    """Name the end of a run."""
    dynamics = setup.dynamics
    used_up = Ending.REACHED_STEPS if dynamics.axis == "step" else Ending.REACHED_TIME
    ending = CERTAIN.get(int(stop.state.code))
    if ending is None:
        ending = _at_rest(setup, start, stop)
    if ending is None:
        ending = used_up
    # A state that no longer moves is the state at the limit, too.
    at = setup.limit if ending is used_up and setup.limit is not None else stop.at
    if dynamics.axis == "time":
        at = float(dynamics.time(np.asarray([at]))[0])
    return Status(ending, at, dynamics.axis)


def _at_rest(setup: Setup, start: Start, stop: Stop) -> Ending | None:
    """Where the gradient vanishes, far from the minimum or close to it; None if it does not."""
    code, gap = int(stop.state.code), start.system.gap
    if not gap.computable:
        return None
    asked, decays = setup.until.gap is not None, setup.dynamics.weight_decay != 0
    value, squared = map(float, slope(start.system, start.stepper, stop.state.params))
    elapsed = float(setup.dynamics.time(np.asarray([stop.state.clock]))[0])
    # dL/dt = −‖∇L‖²: at this slope, how much of the gap would all the time so far remove?
    flat = squared * elapsed < 1e-6 * value and value > 1e-10 * stop.first_gap
    if flat and gap.excess is not None and not decays:
        return Ending.STUCK_AT_A_SADDLE
    if flat or (code != RUNNING and decays):
        return Ending.STATIONARY if asked else None
    if code == FLOOR or (code == STATIONARY and asked):
        return Ending.CONVERGED_TO_TOLERANCE
    return None
