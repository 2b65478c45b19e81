"""Setup → Start: the exact closure of a run if it has one, else the run as it is."""

from typing import Any

from ..dynamics import Dynamics, Gap, System
from ..nets import LinearNet, Net
from ..problems import Population
from ..problems.base import Quadratic
from ..reductions import Frame, Reduction, padded_lift, padded_params, padded_problem, rounded
from ..reductions import reduce as find_reduction
from .host_loop import Start
from .recorder import bound_record
from .running_sums import tally_of
from .setup import Setup


def start_of(setup: Setup, reduce: bool, like: Start | None = None) -> Start:
    """The exact closure of a run if it has one, else the run as it is.

    Args:
        setup: the run.
        reduce: look for a closure.
        like: another member of the same sweep; what both have in common is not made again.
    """
    found = find_reduction(setup.problem, setup.net, setup.params) if reduce else "reduce=False"
    if isinstance(found, str):
        return start_in_full(setup, found, like)
    sizes = ["-".join(map(str, chain)) for chain in (found.lift.net.chain, found.net.dims)]
    found = rounded(found)
    dynamics = _in_basis(setup, found, like)
    if dynamics is None:
        reason = setup.dynamics.not_closed
        reason = reason or setup.dynamics.noise.not_closed  # pyright: ignore[reportAttributeAccessIssue]
        return start_in_full(setup, reason, like)
    tally = tally_of(setup, found.lift)
    system = _system(found.problem, found.net, True, tally, like, found.growth)
    stepper = dynamics.stepper(setup.params, setup.key)
    stats = {
        "reduction": " to ".join(sizes),
        "certificate": found.certificate,
        "reason": "exact closure",
    }
    record = _record(setup, like)
    return Start(
        setup, system, stepper, dynamics, found.params, found.lift, record, stats, found.rounding
    )


def padded(start: Start, frame: Frame, like: Start | None = None) -> Start:
    """A reduced run in a larger frame: the same trajectory, with zeros around it.

    Args:
        start: the run.
        frame: its sizes.
        like: another member in this frame; what both have in common is not made again.
    """
    if Frame.of(start.system.net, start.lift) == frame:
        return start
    problem, lift = padded_problem(start.system.problem, frame), padded_lift(start.lift, frame)
    tally = tally_of(start.setup, lift)
    system = _system(problem, frame.net, True, tally, like, start.system.growth)
    return start._replace(system=system, params=padded_params(start.params, frame), lift=lift)


def start_in_full(setup: Setup, reason: str, like: Start | None = None) -> Start:
    """The run as it is, and why."""
    problem, linear = setup.problem, isinstance(setup.net, LinearNet)
    computable = linear or not isinstance(problem, Population)
    system = _system(problem, setup.net, computable, tally_of(setup, None), like)
    stepper = setup.dynamics.stepper(setup.params, setup.key)
    stats = {"reduction": "none", "certificate": None, "reason": reason}
    record = _record(setup, like)
    return Start(setup, system, stepper, setup.dynamics, setup.params, None, record, stats)


def _system(
    problem: Any, net: Net, computable: bool, tally: Any, like: Start | None, growth: Any = None
) -> System:
    if like is not None and tally is None and like.system.tally is None:
        known = like.system
        if known.problem is problem and known.net is net and known.growth is growth:
            return known
    if isinstance(net, LinearNet) and isinstance(problem, Quadratic):
        return System(problem, net, Gap(problem.excess(), computable), tally, growth)
    return System(problem, net, Gap(None, computable, problem.least), tally, growth)


def _in_basis(setup: Setup, found: Reduction, like: Start | None) -> Dynamics | None:
    reduced = None if like is None or like.lift is None else like
    if reduced is not None and _share(setup, reduced.setup, "dynamics", "problem"):
        return reduced.dynamics
    return setup.dynamics.in_basis(found.row_space)


def _record(setup: Setup, like: Start | None) -> dict[str, Any]:
    if like is not None and _share(setup, like.setup, "record", "problem", "net"):
        return like.record
    return bound_record(setup)


def _share(one: Setup, other: Setup, *names: str) -> bool:
    """Are these parts of two setups the same objects?"""
    return all(getattr(one, name) is getattr(other, name) for name in names)
