"""What the end of a run was: a minimum, a saddle, a limit, or none of them."""

import numpy as np

from ._chunks import Slope, slopes
from ._drive import Ensemble, Stop
from ._scales import unequal_scales
from ._status import Ending, Status
from .dynamics._protocol import CONVERGED, DIVERGED, FAILED, FLOOR, SPENT, STATIONARY
from .numerics.precision import to_numpy

CERTAIN = {
    CONVERGED: Ending.CONVERGED,
    DIVERGED: Ending.DIVERGED,
    FAILED: Ending.INTEGRATOR_FAILED,
}


def statuses(ensemble: Ensemble, stop: Stop) -> list[Status]:
    """Name the end of every member."""
    codes = [int(code) for code in stop.states.code]
    steep = first = None
    if ensemble.starts[0].system.gap.computable and not all(code in CERTAIN for code in codes):
        steep = to_numpy(slopes(ensemble.stack, stop.states.params))
        first = to_numpy(slopes(ensemble.stack, ensemble.params))
    return [
        _status(ensemble, stop, m, _of_member(steep, m), _of_member(first, m))
        for m in range(len(codes))
    ]


def _of_member(steep: Slope | None, member: int) -> Slope | None:
    return None if steep is None else Slope(*(s[member] for s in steep))


def _status(
    ensemble: Ensemble, stop: Stop, member: int, steep: Slope | None, first: Slope | None
) -> Status:
    setup, clock = ensemble.setups[member], stop.clocks[member].item()
    dynamics = setup.dynamics
    used_up = Ending.REACHED_STEPS if dynamics.axis == "step" else Ending.REACHED_TIME
    ending = CERTAIN.get(int(stop.states.code[member]))
    if ending is None and steep is not None:
        ending = _at_rest(ensemble, stop, member, steep)
    if ending is None:
        ending = used_up
    if ending is used_up and setup.limit is not None:
        clock = setup.limit  # a state that no longer moves is the state at the limit, too
    at = clock if dynamics.axis == "step" else float(dynamics.time(np.asarray([clock]))[0])
    at = int(at) if dynamics.axis == "step" else at
    detail = ""
    if ending in (Ending.STUCK_AT_A_SADDLE, Ending.STATIONARY):
        detail = _how_flat(steep, first)
    elif ending is used_up and steep is not None and _flat(ensemble, stop, member, steep):
        detail = " Next to nothing has moved." + _how_flat(steep, first)
    elif ending is Ending.INTEGRATOR_FAILED:
        detail = unequal_scales(setup.problem)
    return Status(ending, at, dynamics.axis, setup.until.gap is not None, detail)


def _how_flat(steep: Slope | None, first: Slope | None) -> str:
    if steep is None or first is None:
        return ""
    now, then = np.sqrt([steep.squared, first.squared])
    against = f", {now / then:.1e} of what it was at the start" if 0 < then < np.inf else ""
    return f" The excess loss is {steep.gap:.4g} and the gradient's norm {now:.1e}{against}."


def _flat(ensemble: Ensemble, stop: Stop, member: int, steep: Slope) -> bool:
    """dL/dt = −‖∇L‖²: at this slope, would all the time so far remove next to no gap?"""
    clock = np.asarray([stop.states.clock[member]])
    elapsed = float(ensemble.setups[member].dynamics.time(clock)[0])
    slow = steep.squared * elapsed < 1e-6 * steep.gap
    return bool(slow and steep.gap > 1e-10 * stop.first_gaps[member])


def _at_rest(ensemble: Ensemble, stop: Stop, member: int, steep: Slope) -> Ending | None:
    """Where the gradient vanishes, far from the minimum or close to it; None if it does not."""
    setup, code = ensemble.setups[member], int(stop.states.code[member])
    known = ensemble.starts[member].system.gap.excess is not None
    asked, decays = setup.until.gap is not None, setup.dynamics.weight_decay != 0
    flat = _flat(ensemble, stop, member, steep)
    # A step that is merely small is not a saddle: there the layers hide a gradient that θ has.
    hidden = steep.squared < 1e-6 * steep.in_theta
    if flat and hidden and known and not decays:
        return Ending.STUCK_AT_A_SADDLE
    if code != SPENT and (flat or decays):
        return Ending.STATIONARY if asked else None
    if code == FLOOR or (code == STATIONARY and asked):
        return Ending.CONVERGED_TO_TOLERANCE
    return None
