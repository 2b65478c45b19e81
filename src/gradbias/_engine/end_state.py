"""What the end of a run was: a minimum, a saddle, a limit, or none of them."""

import jax
import numpy as np

from ..dynamics.protocol import AT_REST, CONVERGED, DIVERGED, FAILED, FLOOR, SPENT, STATIONARY
from ..nets import Net
from ..nets.base import ChainNet
from ..numerics.precision import to_numpy
from ..problems import Problem, QuadraticProblem
from ..problems._population import PopulationExcess
from ..problems._regression import SpectralExcess
from .host_loop import MemberStack, Stop
from .status import SENTENCES, Ending, Status
from .stiff_scales import unequal_scales
from .stop_checks import Slope, slopes

CERTAIN = {
    CONVERGED: Ending.CONVERGED,
    DIVERGED: Ending.DIVERGED,
    FAILED: Ending.INTEGRATOR_FAILED,
}
UNCHANGED = 0.25  # of the squared gradient at the start: it is about what it was


def at_own_minimum(problem: Problem, net: Net, gap: float) -> bool:
    """Is this excess loss the least that a net of its width can have?

    By Eckart, Young and Mirsky: s Vᵀθ has at most the rank of the narrowest layer, and what it
    leaves of its target B is the tail of B's singular values.
    """
    if not isinstance(net, ChainNet) or len(net.chain) < 3:
        return False
    excess = problem.excess() if isinstance(problem, QuadraticProblem) else None
    if isinstance(excess, SpectralExcess):
        target = excess.B
    elif isinstance(excess, PopulationExcess):
        target = excess.s[:, None] * (excess.Vt @ excess.theta_star)
    else:
        return False
    tail = np.linalg.svd(np.asarray(target), compute_uv=False)[min(net.chain[1:-1]) :]
    least = float(excess.weight) * float(np.sum(tail * tail))
    return least > 0 and gap <= (1 + 1e-6) * least


def statuses(ensemble: MemberStack, stop: Stop, in_words: bool) -> list[Status]:
    """Name the end of every member.

    Args:
        ensemble: the members.
        stop: where they halted.
        in_words: are there sentences, too? A sweep keeps none.
    """
    codes = [int(code) for code in stop.states.code]
    steep = first = None
    if ensemble.starts[0].system.gap.computable and not all(code in CERTAIN for code in codes):
        steep = to_numpy(slopes(ensemble.stack, stop.states.params))
        if in_words or STATIONARY in codes:
            first = to_numpy(slopes(ensemble.stack, ensemble.params))
    return [_status(ensemble, stop, m, _of(steep, m), _of(first, m)) for m in range(len(codes))]


def _of(slopes: Slope | None, member: int) -> Slope | None:
    return None if slopes is None else Slope(*(value[member] for value in slopes))


def _status(
    ensemble: MemberStack, stop: Stop, member: int, steep: Slope | None, first: Slope | None
) -> Status:
    setup = ensemble.setups[member]
    clock = stop.clocks[member].item()
    dynamics = setup.dynamics
    code = int(stop.states.code[member])
    used_up = Ending.REACHED_STEPS if dynamics.axis == "step" else Ending.REACHED_TIME
    ending = Ending.INTEGRATOR_FAILED if code > AT_REST else CERTAIN.get(code)
    if ending is None and steep is not None and not dynamics.at_minimum:
        ending = _at_rest(ensemble, stop, member, steep, first)
    if ending is None:
        ending = used_up
    if ending is used_up and setup.limit is not None:
        clock = setup.limit  # a state that no longer moves is the state at the limit, too
    at = float(dynamics.on_axis(np.asarray([clock]))[0])
    at = int(at) if dynamics.axis == "step" else at
    reason = dynamics.reasons.get(code, "")
    if ending in (Ending.STUCK_AT_A_SADDLE, Ending.STATIONARY, Ending.STEPS_TOO_SMALL):
        reason = _how_flat(steep, first)
    elif ending is used_up and not reason and steep is not None and not dynamics.at_minimum:
        if _flat(ensemble, stop, member, steep):
            reason = f"Next to nothing has moved. {_how_flat(steep, first)}"
    elif ending is Ending.INTEGRATOR_FAILED and not reason:
        reason = f"{SENTENCES[ending]} {unequal_scales(setup.problem)}"
    return Status(ending, at, dynamics.axis, setup.goal is not None, reason.strip())


def _how_flat(steep: Slope | None, first: Slope | None) -> str:
    if steep is None or first is None:
        return ""
    now, then = np.sqrt([steep.squared, first.squared])
    against = f", {now / then:.1e} of what it was at the start" if 0 < then < np.inf else ""
    return f"The excess loss is {steep.gap:.4g} and the gradient's norm {now:.1e}{against}."


def _flat(ensemble: MemberStack, stop: Stop, member: int, steep: Slope) -> bool:
    """dL/dt = −‖∇L‖²: at this slope, would all the time so far remove next to no gap?"""
    clock = np.asarray([stop.states.clock[member]])
    elapsed = float(ensemble.setups[member].dynamics.time(clock)[0])
    if not np.isfinite(elapsed):
        return False
    if ensemble.unknown:  # how far it is from the minimum, nobody knows
        return bool(steep.squared * elapsed < 1e-6 * (stop.first_gaps[member] - steep.gap))
    slow = steep.squared * elapsed < 1e-6 * steep.gap
    return bool(slow and steep.gap > 1e-10 * stop.first_gaps[member])


def _unmoved(ensemble: MemberStack, stop: Stop, member: int) -> bool:
    """Are all parameters what they were at the start, to the last bit?"""
    pairs = zip(jax.tree.leaves(ensemble.params), jax.tree.leaves(stop.states.params), strict=True)
    return all(np.array_equal(first[member], last[member]) for first, last in pairs)


def _at_rest(
    ensemble: MemberStack, stop: Stop, member: int, steep: Slope, first: Slope | None
) -> Ending | None:
    """Where the gradient vanishes, far from the minimum or close to it; None if it does not."""
    setup = ensemble.setups[member]
    code = int(stop.states.code[member])
    known = ensemble.starts[member].system.gap.excess is not None
    asked = setup.goal is not None
    decays = setup.dynamics.weight_decay != 0
    if code == STATIONARY and asked and first is not None:
        asleep = steep.squared > UNCHANGED * first.squared
        if asleep and (ensemble.unknown or steep.gap > 0.5 * first.gap):
            return Ending.STEPS_TOO_SMALL
    flat = _flat(ensemble, stop, member, steep)
    # A step that is merely small is not a saddle: there the layers hide a gradient that θ has.
    hidden = known and steep.squared < 1e-6 * steep.in_theta
    moves = known or steep.squared > 0  # but for the digits; where it is unknown, zero is zero
    if flat and moves and not hidden and _unmoved(ensemble, stop, member):
        return Ending.STEPS_TOO_SMALL
    if flat and hidden and not decays:
        if not at_own_minimum(setup.problem, setup.net, float(steep.gap)):
            return Ending.STUCK_AT_A_SADDLE
        return Ending.STATIONARY if asked else None
    if code != SPENT and (flat or decays):
        return Ending.STATIONARY if asked else None
    if code == FLOOR or (code == STATIONARY and asked):
        return Ending.CONVERGED_TO_TOLERANCE
    return None
