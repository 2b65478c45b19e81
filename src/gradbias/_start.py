"""Setup → Start: the exact closure of a run if it has one, else the run as it is."""

from ._drive import Start
from ._setup import Setup
from ._tally import tally_of
from .dynamics import Gap, System
from .nets import Deep, LinearNet
from .problems import Population
from .problems._base import Quadratic
from .reductions import Frame, padded_lift, padded_params, padded_problem
from .reductions import reduce as find_reduction


def start_of(setup: Setup, reduce: bool) -> Start:
    """The exact closure of a run if it has one, else the run as it is."""
    if not reduce:
        return _unreduced(setup, "reduce=False")
    found = find_reduction(setup.problem, setup.net, setup.params)
    if isinstance(found, str):
        return _unreduced(setup, found)
    dynamics = setup.dynamics.in_basis(found.row_space)
    if dynamics is None:
        return _unreduced(setup, setup.dynamics.noise.not_closed)  # pyright: ignore[reportAttributeAccessIssue]
    gap = Gap(found.problem.excess(), computable=True)
    system = System(found.problem, found.net, gap, tally_of(setup, found.lift))
    stepper = dynamics.stepper(setup.params, setup.key)
    sizes = ["-".join(map(str, chain)) for chain in (found.lift.net.chain, found.net.dims)]
    stats = {
        "reduction": " to ".join(sizes),
        "certificate": found.certificate,
        "reason": "exact closure",
    }
    return Start(setup, system, stepper, dynamics, found.params, found.lift, stats)


def padded(start: Start, frame: Frame) -> Start:
    """A reduced run in a larger frame: the same trajectory, with zeros around it."""
    if Frame.of(start.system.net, start.lift) == frame:
        return start
    problem, lift = padded_problem(start.system.problem, frame), padded_lift(start.lift, frame)
    gap = Gap(problem.excess(), computable=True)
    system = System(problem, Deep(frame.dims), gap, tally_of(start.setup, lift))
    return start._replace(system=system, params=padded_params(start.params, frame), lift=lift)


def _unreduced(setup: Setup, reason: str) -> Start:
    problem, linear = setup.problem, isinstance(setup.net, LinearNet)
    excess = problem.excess() if linear and isinstance(problem, Quadratic) else None
    gap = Gap(excess, computable=linear or not isinstance(problem, Population))
    system = System(problem, setup.net, gap, tally_of(setup, None))
    stepper = setup.dynamics.stepper(setup.params, setup.key)
    stats = {"reduction": "none", "certificate": None, "reason": reason}
    return Start(setup, system, stepper, setup.dynamics, setup.params, None, stats)
