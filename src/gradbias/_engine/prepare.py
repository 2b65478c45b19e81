"""Setup → Prepared: the exact closure of a run if it has one, else the run as it is."""

from typing import Any

from ..dynamics import Gap, System
from ..nets import LinearNet, Net
from ..numerics.memo import Memo
from ..problems import Population, Problem
from ..problems.base import LossOfOutputs, Quadratic
from ..reductions import (
    Growth,
    PaddedSize,
    Reduction,
    padded_lift,
    padded_params,
    padded_problem,
    rounded,
)
from ..reductions import reduce as find_reduction
from .host_loop import Prepared
from .recorder import bound_record
from .running_sums import Tally, tally_of
from .setup import Setup


def start_of(setup: Setup, reduce: bool, memo: Memo | None = None) -> Prepared:
    """The exact closure of a run if it has one, else the run as it is.

    Args:
        setup: the run.
        reduce: look for a closure.
        memo: of its sweep; what members have in common is not made again.
    """
    memo = memo or Memo()
    found = _closure(setup) if reduce else "reduce=False"
    if isinstance(found, str):
        return start_in_full(setup, found, memo)
    sizes = ["-".join(map(str, chain)) for chain in (found.lift.net.chain, found.net.dims)]
    found = rounded(found)
    sources = setup.dynamics, setup.problem
    dynamics = memo.of("dynamics", sources, lambda: setup.dynamics.in_basis(found.row_space))
    if dynamics is None:
        reason = setup.dynamics.not_closed
        reason = reason or setup.dynamics.noise.not_closed  # pyright: ignore[reportAttributeAccessIssue]
        return start_in_full(setup, reason, memo)
    tally = tally_of(setup, found.lift)
    system = _system(found.problem, found.net, True, tally, memo, found.growth)
    stepper = dynamics.stepper(setup.params, setup.key)
    stats = {
        "reduction": " to ".join(sizes),
        "certificate": found.certificate,
        "reason": "exact closure",
    }
    record = _record(setup, memo)
    return Prepared(
        setup, system, stepper, dynamics, found.params, found.lift, record, stats, found.rounding
    )


def _closure(setup: Setup) -> Reduction | str:
    """The closure of a run as far as problem, net and kind of step decide, or why there is none."""
    open_because = setup.dynamics.not_closed_on(setup.net)
    if open_because is not None:
        return open_because
    found = find_reduction(setup.problem, setup.net, setup.params)
    if isinstance(found, Reduction) and found.growth and not setup.dynamics.follows_slope:
        name = type(setup.dynamics).__name__
        return (
            f"rounding may grow, and the slope does not bound how fast it does in steps of {name}"
        )
    return found


def padded(start: Prepared, frame: PaddedSize, memo: Memo) -> Prepared:
    """A reduced run in a larger frame: the same trajectory, with zeros around it.

    Args:
        start: the run.
        frame: its sizes.
        memo: what members in one frame have in common is not made again.
    """
    if PaddedSize.of(start.system.net, start.lift) == frame:
        return start
    problem = padded_problem(start.system.problem, frame)
    lift = padded_lift(start.lift, frame)
    tally = tally_of(start.setup, lift)
    system = _system(problem, frame.net, True, tally, memo, start.system.growth)
    return start._replace(system=system, params=padded_params(start.params, frame), lift=lift)


def start_in_full(setup: Setup, reason: str, memo: Memo | None = None) -> Prepared:
    """The run as it is, and why."""
    memo = memo or Memo()
    problem = setup.problem
    linear = isinstance(setup.net, LinearNet)
    computable = linear or not isinstance(problem, Population)
    system = _system(problem, setup.net, computable, tally_of(setup, None), memo)
    stepper = setup.dynamics.stepper(setup.params, setup.key)
    stats = {"reduction": "none", "certificate": None, "reason": reason}
    record = _record(setup, memo)
    return Prepared(setup, system, stepper, setup.dynamics, setup.params, None, record, stats)


def _system(
    problem: Problem | LossOfOutputs,
    net: Net,
    computable: bool,
    tally: Tally | None,
    memo: Memo,
    growth: Growth | None = None,
) -> System:
    if tally is not None:
        return System(problem, net, _gap(problem, net, computable), tally, growth)

    def system() -> System:
        return System(problem, net, _gap(problem, net, computable), None, growth)

    return memo.of("system", (problem, net, growth), system)


def _gap(problem: Problem | LossOfOutputs, net: Net, computable: bool) -> Gap:
    if isinstance(net, LinearNet) and isinstance(problem, Quadratic):
        return Gap(problem.excess(), computable)
    return Gap(None, computable, getattr(problem, "least", None))


def _record(setup: Setup, memo: Memo) -> dict[str, Any]:
    """The observables, bound to the data."""
    sources = setup.record, setup.problem, setup.net
    return memo.of("record", sources, lambda: bound_record(setup))
