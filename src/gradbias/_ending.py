"""What the end of a run was: a minimum, a saddle, a limit, or none of them."""

import numpy as np

from ._chunks import Slope, slopes
from ._drive import Ensemble, Stop
from ._status import Ending, Status
from .dynamics._protocol import AT_REST, CONVERGED, DIVERGED, FAILED, FLOOR, SPENT, STATIONARY
from .numerics.precision import to_numpy

CERTAIN = {
    CONVERGED: Ending.CONVERGED,
    DIVERGED: Ending.DIVERGED,
    FAILED: Ending.INTEGRATOR_FAILED,
}


def statuses(ensemble: Ensemble, stop: Stop) -> list[Status]:
    """Name the end of every member."""
    codes = [int(code) for code in stop.states.code]
    steep = None
    if ensemble.starts[0].system.gap.computable and not all(code in CERTAIN for code in codes):
        steep = to_numpy(slopes(ensemble.stack, stop.states.params))
    return [
        _status(ensemble, stop, m, None if steep is None else Slope(*(s[m] for s in steep)))
        for m in range(len(codes))
    ]


def _status(ensemble: Ensemble, stop: Stop, member: int, steep: Slope | None) -> Status:
    setup, clock = ensemble.setups[member], stop.clocks[member].item()
    dynamics, code = setup.dynamics, int(stop.states.code[member])
    used_up = Ending.REACHED_STEPS if dynamics.axis == "step" else Ending.REACHED_TIME
    ending = Ending.INTEGRATOR_FAILED if code > AT_REST else CERTAIN.get(code)
    if ending is None and steep is not None and not dynamics.at_minimum:
        ending = _at_rest(ensemble, stop, member, steep)
    if ending is None:
        ending = used_up
    if ending is used_up and setup.limit is not None:
        clock = setup.limit  # a state that no longer moves is the state at the limit, too
    at = clock if dynamics.axis == "step" else float(dynamics.time(np.asarray([clock]))[0])
    at = int(at) if dynamics.axis == "step" else at
    reason = dynamics.reasons.get(code, "")
    return Status(ending, at, dynamics.axis, setup.until.gap is not None, reason)


def _at_rest(ensemble: Ensemble, stop: Stop, member: int, steep: Slope) -> Ending | None:
    """Where the gradient vanishes, far from the minimum or close to it; None if it does not."""
    setup, code = ensemble.setups[member], int(stop.states.code[member])
    known = ensemble.starts[member].system.gap.excess is not None
    asked, decays = setup.until.gap is not None, setup.dynamics.weight_decay != 0
    elapsed = float(setup.dynamics.time(np.asarray([stop.states.clock[member]]))[0])
    # dL/dt = −‖∇L‖²: at this slope, how much of the gap would all the time so far remove?
    slow = steep.squared * elapsed < 1e-6 * steep.gap
    flat = slow and steep.gap > 1e-10 * stop.first_gaps[member]
    # A step that is merely small is not a saddle: there the layers hide a gradient that θ has.
    hidden = steep.squared < 1e-6 * steep.in_theta
    if flat and hidden and known and not decays:
        return Ending.STUCK_AT_A_SADDLE
    if code != SPENT and (flat or decays):
        return Ending.STATIONARY if asked else None
    if code == FLOOR or (code == STATIONARY and asked):
        return Ending.CONVERGED_TO_TOLERANCE
    return None
