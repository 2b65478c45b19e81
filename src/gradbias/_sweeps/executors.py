"""Who computes the chunks: this process, our own pool, or anybody's executor."""

import concurrent.futures
import contextlib
import os
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

from ..numerics.fingerprint import imported_parts
from ..numerics.pace import TIMED
from ..numerics.program_keys import code_in
from . import worker
from .chunking import Chunk
from .environment import Environment
from .job import Estimate, Finished, Job, perform
from .members import Members
from .pickling import Packed, pack
from .process_pool import own_pool
from .progress import SweepProgress
from .results import ChunkResult

WAITING_BYTES = 2**28  # of jobs that were handed to an executor and are not done
WAITING = 1000  # jobs

ChunkResults = Iterator[tuple[Chunk, ChunkResult]]


def check_executor(executor: object) -> None:
    """Refuse what cannot work, with the line to write instead."""
    if executor is None:
        return
    if isinstance(executor, bool) or not (
        isinstance(executor, int) or callable(getattr(executor, "submit", None))
    ):
        raise ValueError(
            "executor must be None, a number of processes or a concurrent.futures.Executor, got "
            f"{type(executor).__name__} {executor!r:.80}"
        )
    if isinstance(executor, int) and executor < 1:
        raise ValueError(f"executor must be at least one process, got {executor}")
    context = getattr(executor, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise ValueError(
            "executor: this pool forks, and forked processes wait for ever once jax has run here. "
            "Write executor=2 for a pool of two, or ProcessPoolExecutor(2, "
            'mp_context=multiprocessing.get_context("spawn"))'
        )


def compute(
    executor: int | Executor | None, roster: Members, chunks: list[Chunk], bar: SweepProgress
) -> ChunkResults:
    """Compute chunks; they come in any order."""
    if executor is None:
        return _here(roster, chunks, bar)
    if isinstance(executor, int):
        return _in_own_pool(executor, roster, chunks, bar)
    return _Handed(executor, getattr(executor, "_max_workers", None), roster, bar).run(chunks)


def _here(roster: Members, chunks: list[Chunk], bar: SweepProgress) -> ChunkResults:
    for chunk in chunks:
        job = Job(chunk.starts(roster), len(chunk.members), chunk.group.own, "")
        done = perform(job, bar.part(chunk.cost))
        assert isinstance(done, Finished)
        bar.finish(chunk.cost, f"chunk {chunk.number}")
        yield chunk, done.piece


def _in_own_pool(
    workers: int, roster: Members, chunks: list[Chunk], bar: SweepProgress
) -> ChunkResults:
    with own_pool(min(workers, len(chunks))) as pool:
        yield from _Handed(pool, workers, roster, bar).run(chunks)


class _Handed:
    """Jobs that an executor has.

    Args:
        executor: takes `submit(function, argument)`.
        workers: how many there are; None if nobody knows.
        roster: the members.
        bar: shows how far all are.
    """

    def __init__(
        self, executor: Executor, workers: int | None, roster: Members, bar: SweepProgress
    ):
        self.executor = executor
        self.workers = workers
        self.roster = roster
        self.bar = bar
        self.sweep = f"{os.getpid()} {uuid.uuid4()}"
        self.waiting: dict[Any, tuple[Chunk, int]] = {}
        self.packed: Packed = {}
        self.environment = Environment.here()
        self.warned = False

    def run(self, chunks: list[Chunk]) -> ChunkResults:
        """Hand chunks over, never too many at a time, and take what comes back."""
        left = list(reversed(chunks))
        patience = TIMED
        try:
            while left or self.waiting:
                while left and self._room():
                    # The first job may come back with an estimate instead of results.
                    self._submit(left.pop(), patience)
                    patience = None
                for chunk, done in self._returned():
                    if isinstance(done, Estimate):
                        self._say(done, chunk)
                        left.append(chunk)
                        continue
                    self.bar.finish(chunk.cost, f"chunk {chunk.number}")
                    yield chunk, done.piece
        finally:
            self._give_up()

    def _room(self) -> bool:
        size = sum(size for _, size in self.waiting.values())
        return len(self.waiting) < WAITING and (not self.waiting or size < WAITING_BYTES)

    def _submit(self, chunk: Chunk, patience: float | None) -> None:
        starts = chunk.starts(self.roster)
        group = chunk.group
        imported = imported_parts(code_in([start.setup for start in starts]).values())
        job = Job(
            starts, len(chunk.members), group.own, self.sweep, patience, tuple(imported.items())
        )
        content = pack(job, self.packed)
        with warnings.catch_warnings():
            # That a job is large is no news to dask's user, who cannot change it.
            warnings.filterwarnings("ignore", message="Sending large graph")
            try:
                future = self.executor.submit(worker.work, content)
            except Exception as error:
                raise LostWorker from error
        self.waiting[future] = chunk, len(content)

    def _returned(self) -> Iterator[tuple[Chunk, Finished | Estimate]]:
        # Woken up now and then: a wait without an end cannot be interrupted everywhere.
        done, _ = concurrent.futures.wait(
            self.waiting, timeout=0.2, return_when=concurrent.futures.FIRST_COMPLETED
        )
        # What is there is taken first: an executor that breaks fails all that it still has.
        for future in sorted(done, key=lambda f: f.cancelled() or f.exception() is not None):
            chunk, _ = self.waiting.pop(future)
            try:
                result = future.result()
            except (Exception, concurrent.futures.CancelledError) as error:
                raise LostWorker from error
            if isinstance(result, worker.Failure):
                raise JobError(result.error())
            if isinstance(result, Finished):
                self._compare(result.environment)
            yield chunk, result

    def _say(self, estimate: Estimate, chunk: Chunk) -> None:
        seconds = estimate.seconds * self.bar.total / chunk.cost
        workers = self.workers or 1
        how = f" on {workers} workers" if self.workers else " of computing, for all workers"
        self.bar.say(seconds / workers, how)

    def _compare(self, environment: Environment) -> None:
        changed = self.environment.difference(environment)
        if changed and not self.warned:
            self.warned = True
            warnings.warn(
                f"executor: a worker is not like this process ({changed}): results may differ in "
                "the last bits from those computed here",
                stacklevel=6,
            )

    def _give_up(self) -> None:
        """Cancel what is not done; threads of this process look for their name here."""
        if self.waiting:
            worker.stopped.add(self.sweep)
        for future in self.waiting:
            with contextlib.suppress(Exception):
                future.cancel()


class LostWorker(Exception):
    """An executor did not bring a job back; its cause says why. Jobs do not raise: see `work`."""


class JobError(Exception):
    """An error of a job itself."""

    def __init__(self, error: Exception):
        super().__init__(error)
        self.error = error
