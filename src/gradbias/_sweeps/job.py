"""A chunk of a sweep as a job: done here, or on any worker."""

import time
from typing import NamedTuple

from .._engine.host_loop import Prepared
from .._engine.simulate import DifferingLeaves, in_full_where_needed, run_members
from ..numerics.fingerprint import changed_parts
from ..numerics.precision import in_float64
from ..numerics.program_keys import keyed_by
from ..numerics.progress import Ends, Progress
from . import worker
from .environment import Environment
from .results import ChunkResult, chunk_result_of


class Job(NamedTuple):
    """Members to run.

    Attributes:
        starts: the members; those beyond `wanted` only fill up the chunk.
        wanted: how many of them are members; results of the others are dropped.
        own: in what the members of their group differ.
        sweep: the name of the sweep, by which it may be given up.
        patience: seconds after which to say how long it will take instead; None for never.
        imported: what the members' code takes from modules that a worker imports for itself.
    """

    starts: list[Prepared]
    wanted: int
    own: DifferingLeaves
    sweep: str
    patience: float | None = None
    imported: tuple[tuple[str, str], ...] = ()

    def check_imports(self) -> None:
        """Refuse to work with modules that are not those of the process that asks."""
        for name in changed_parts(dict(self.imported)):
            raise ValueError(
                f"executor: {name.replace(':', '.')} is not the same on the worker, which imports "
                "it from its file: there it was changed, or here after the import. Save the file "
                "and start anew, or hand the value over as a field or an argument"
            )


class Finished(NamedTuple):
    """The results of a job, and the kind of machine that made them."""

    piece: ChunkResult
    environment: Environment
    seconds: float


class Estimate(NamedTuple):
    """How long a job will take, without the time to compile it."""

    seconds: float


class Stopped(BaseException):
    """The sweep was given up; not an error of the job."""


class _Enough(BaseException):
    """The estimate is made."""


class Watcher(Progress):
    """Ends a job that is given up, or that has run long enough to say how long it will take."""

    def __init__(self, sweep: str, patience: float | None):
        self.sweep = sweep
        self.patience = patience
        self.first: tuple[float, float] | None = None
        self.seconds = 0.0

    def update(self, fraction: float, note: str, ends: Ends = "about") -> None:
        """Called after every compiled call."""
        if self.sweep in worker.stopped:
            raise Stopped
        now = time.monotonic()
        if self.first is None:
            self.first = now, fraction
        elapsed = now - self.first[0]
        gained = fraction - self.first[1]
        if self.patience is not None and elapsed > self.patience and gained > 0:
            self.seconds = elapsed / gained
            raise _Enough


@in_float64
def perform(job: Job, bar: Progress | None = None) -> Finished | Estimate:
    """Run the members of a job.

    Args:
        job: what to do.
        bar: shows how far it is; by default it only listens whether the sweep is given up.
    """
    watcher = Watcher(job.sweep, job.patience)
    began = time.monotonic()
    try:
        with keyed_by([start.setup for start in job.starts]):
            bar = watcher if bar is None else bar
            done = run_members(job.starts, bar, job.own, job.wanted)
            for member, _, again in in_full_where_needed(job.starts, done, bar, job.wanted):
                done = done.with_member(member, again)
    except _Enough:
        return Estimate(watcher.seconds)
    piece = chunk_result_of(job.starts, done, job.wanted)
    return Finished(piece, Environment.here(), time.monotonic() - began)
