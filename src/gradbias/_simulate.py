"""Setup → Run: reduce, advance in compiled chunks driven from the host, lift, record."""

import time
from typing import Any

import numpy as np

from ._drive import Start, drive
from ._ending import status_of
from ._progress import Progress
from ._recorder import Recorder, lifted
from ._run import Run
from ._setup import Setup
from ._tally import tally_of
from .dynamics import Gap, System
from .nets import LinearNet
from .nets._base import as_matrix
from .numerics.compilations import count_compilations
from .numerics.linalg import one_blas_thread
from .numerics.precision import host, to_numpy
from .problems import Population
from .problems._base import Quadratic
from .reductions import reduce as find_reduction


@host
def simulate(setup: Setup, reduce: bool = True, progress: bool | None = None) -> Run:
    """Run a setup.

    Args:
        setup: what to run.
        reduce: use the exact closure where there is one; the result is the same to 1e-10.
        progress: show a line while it runs; by default where a person may be looking.

    Returns:
        The run: `run.data` (an xarray.Dataset), `run.final`, `run.theta`, `run.status`.
    """
    if not isinstance(setup, Setup):
        raise ValueError(f"setup must be a gb.Setup, got {type(setup).__name__}")
    began = time.monotonic()
    with count_compilations() as compilations:
        with one_blas_thread():
            start = _start(setup, reduce)
        recorder = Recorder(setup, start.lift, start.params)
        with Progress(repr(setup.net), progress) as bar:
            stop = drive(setup, start, recorder, bar)
        status = status_of(setup, start, stop)
        values = recorder.finish()
        final = stop.state.params
        if start.lift is not None:
            final = to_numpy(lifted(start.lift, final))
    stats = {
        **start.stats,
        "compilations": compilations.count,
        "seconds": time.monotonic() - began,
    }
    return Run.of(setup, values, final, _predictor(setup, final), status, stats)


def _predictor(setup: Setup, final: Any) -> np.ndarray | None:
    if not isinstance(setup.net, LinearNet):
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # the last state of a run that diverged
        return setup.problem.at_edge(as_matrix(np.asarray(setup.net.predictor(final))))


def _start(setup: Setup, reduce: bool) -> Start:
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
    return Start(system, stepper, dynamics, found.params, found.lift, stats)


def _unreduced(setup: Setup, reason: str) -> Start:
    problem, linear = setup.problem, isinstance(setup.net, LinearNet)
    excess = problem.excess() if linear and isinstance(problem, Quadratic) else None
    gap = Gap(excess, computable=linear or not isinstance(problem, Population))
    system = System(problem, setup.net, gap, tally_of(setup, None))
    stepper = setup.dynamics.stepper(setup.params, setup.key)
    stats = {"reduction": "none", "certificate": None, "reason": reason}
    return Start(system, stepper, setup.dynamics, setup.params, None, stats)
