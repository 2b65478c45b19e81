"""Setup → Run."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from ..nets import LinearNet
from ..nets.base import as_matrix
from ..numerics.compilations import count_compilations, make_room
from ..numerics.linalg import one_blas_thread
from ..numerics.precision import host, to_numpy
from ..numerics.progress import Progress
from ..numerics.types import PyTree
from .end_state import statuses
from .error_growth import EXACT
from .host_loop import MemberStack, Prepared, Stop, drive
from .prepare import start_in_full, start_of
from .recorder import Recorder, lifted
from .run import Run
from .setup import Setup
from .stacking import pick
from .status import Status


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
    if not isinstance(reduce, bool):
        raise ValueError(f"reduce must be True or False, got {reduce!r:.80}")
    began = time.monotonic()
    with count_compilations() as compilations:
        with one_blas_thread():
            start = start_of(setup, reduce)
        with Progress(repr(setup.net), progress) as bar:
            done = run_members([start], bar)
            for _, in_full, again in in_full_where_needed([start], done, bar):
                start = in_full
                done = again
        ended = pick(done.stop.states, 0)
        account = start.dynamics.account(start.system, ended)
        final = ended.params
        if start.lift is not None:
            final = to_numpy(lifted(start.lift, final))
    stats = {
        **start.stats,
        **account,
        "compilations": compilations.count,
        "seconds": time.monotonic() - began,
    }
    values = pick(done.values, (slice(0, -1), 0))
    theta = _predictor(setup, final)
    end = pick(done.values, (-1, 0))
    return Run.of(setup, values, final, theta, done.statuses[0], stats, end)


class FinishedMembers(NamedTuple):
    """Members that have run.

    Attributes:
        values: every observable, (saves and the end, members, …).
        stop: where they halted.
        statuses: what that was.
    """

    values: dict[str, Any]
    stop: Stop
    statuses: list[Status]

    def with_member(self, member: int, alone: "FinishedMembers") -> "FinishedMembers":
        """The same with one member as it ran by itself."""
        values = jax.tree.map(np.array, self.values)
        for value, own in zip(*map(jax.tree.leaves, (values, alone.values)), strict=True):
            value[:, member] = own[:, 0]
        statuses = list(self.statuses)
        statuses[member] = alone.statuses[0]
        return self._replace(values=values, statuses=statuses)


class DifferingLeaves(NamedTuple):
    """The names of the leaves that members have each for itself; all others are passed once.

    Attributes:
        run: of system and stepper.
        view: of what observables see.
    """

    run: frozenset[str]
    view: frozenset[str]


def run_members(
    starts: list[Prepared],
    bar: Progress,
    own: DifferingLeaves | None = None,
    wanted: int | None = None,
) -> FinishedMembers:
    """Run members of one shape as one program.

    Args:
        starts: the members.
        bar: shows how far they are.
        own: in what members of their kind differ; None looks at these alone. Members that run in
            several calls need it, so that every call is the same program.
        wanted: how many of them run; those behind only fill up the program. None for all.
    """
    make_room()
    ensemble = MemberStack(starts, None if own is None else own.run, wanted)
    lifts = [start.lift for start in starts]
    records = [start.record for start in starts]
    differ = None if own is None else own.view
    recorder = Recorder(ensemble.setups, lifts, differ, records)
    with one_blas_thread():  # implicit steps factorise, and threads would wait for each other
        stop = drive(ensemble, recorder, bar)
    return FinishedMembers(recorder.finish(), stop, statuses(ensemble, stop, in_words=own is None))


def in_full_where_needed(
    starts: list[Prepared], done: FinishedMembers, bar: Progress, wanted: int | None = None
) -> Iterator[tuple[int, Prepared, FinishedMembers]]:
    """The members whose reduced runs may be off by more than they promise, run in full."""
    for member in np.flatnonzero(done.stop.errors[:wanted] > EXACT).tolist():
        error = done.stop.errors[member]
        reason = (
            "what is rounding in the invariant subspaces might have grown, from a start near a "
            f"saddle, to {error:.1e} of a layer"
        )
        start = start_in_full(starts[member].setup, reason)
        yield member, start, run_members([start], bar)


def _predictor(setup: Setup, final: PyTree) -> np.ndarray | None:
    if not isinstance(setup.net, LinearNet):
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # the last state of a run that diverged
        return setup.problem.at_edge(as_matrix(np.asarray(setup.net.predictor(final))))
