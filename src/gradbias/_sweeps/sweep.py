"""Grids of setups → one Dataset: resumable, on any executor."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import xarray as xr

from .._engine.setup import Setup
from ..numerics import checks
from ..numerics.linalg import one_blas_thread
from ..numerics.precision import in_float64
from .chunking import Chunk, chunks_of
from .executors import ChunkResults, JobError, LostWorker, check_executor, compute
from .grid import Grid
from .members import Members
from .predictions import Questions
from .progress import SweepProgress
from .results import ChunkResult, Results, check_names, skeleton_of, warn_if_large
from .store import Store, refuse_unseen
from .store_netcdf import assembled


@in_float64
@one_blas_thread()
def sweep(
    build: Callable[..., Setup],
    over: Mapping[str, Iterable[Any]],
    store: str | os.PathLike[str] | None = None,
    executor: int | Executor | None = None,
    record: Mapping[str, Any] | Sequence[Any] | None = None,
    progress: bool | None = None,
    *,
    chunk: int | None = None,
    predict: str | None = None,
) -> xr.Dataset:
    """Run a setup for every point of a grid; members of one shape run as one compiled program.

    Results have the same bits whatever the executor, the order and the number of restarts, on one
    type of processor, version of jax and number of XLA's threads. `simulate(build(**point))`
    repeats a member up to rounding.

    Args:
        build: returns the Setup of a point, `build(scale=0.1, seed=3)`; called in this process,
            once for every point, and again for members that do not fit into memory.
        over: the axes of the grid, `{"scale": [0.1, 1.0], "seed": range(10)}`; values are numbers
            or strings.
        store: a folder that holds every finished chunk; the same call goes on where the last one
            was stopped. A changed `build` or `over` is refused.
        executor: None computes in this process, a number in so many others; or any
            `concurrent.futures.Executor`, such as dask's `client.get_executor()`.
        record: what to save, for all members; by default what each Setup says.
        progress: show a line while it runs; by default where a person may be looking. False also
            silences the estimate that is printed before anything longer than 30 s.
        chunk: members that run together; by default as many as memory and a loss of about 20 s in
            a crash allow. Another number changes results by rounding only.
        predict: a pattern of theorem ids, such as "rank1.thm1"; then the Dataset has for each
            quantity x that they predict `x_predicted`, `x_measured`, the relative `x_error` and
            `x_verdict` as in `gb.check` (NaN and "not applicable" where a theorem does not
            apply), and `applies`. What they need is recorded, too, where that is little and there
            is no store; with a store, record `gb.observe.params` and what they need yourself.

    Returns:
        A Dataset with the axes of `over` and `step` or `time`: every observable `x`, its value
        `x_end` where the member stopped, `status` (see its flag_meanings) and `stopped_at`. With
        a store, values are read from its `sweep.nc` when they are used.
    """
    grid = Grid.of(over)
    asked = None if predict is None else Questions(predict, grid, extend=store is None)
    check_executor(executor)
    chunk = None if chunk is None else checks.integer("chunk", chunk, at_least=1)
    roster = Members(build, grid, record, store is not None, asked)
    chunks = chunks_of(roster, chunk)
    check_names(grid, [(c.members[0], c.group.outline) for c in chunks])
    roster.warn_of_equal_keys()
    skeleton = skeleton_of(grid, roster.coordinates(), roster.first)
    label = f"sweep of {grid.size}"
    if store is None:
        warn_if_large(grid, chunks[0].group.outline, roster.rows)
        whole = Results(grid)
        _run(_Memory(whole), chunks, executor, roster, label, progress)
        data = whole.dataset(skeleton, roster.axis)
    else:
        refuse_unseen(roster.reader.unseen)
        place = Store(store, grid, roster.table, chunks)

        def compute_into_store(missing: list[Chunk]) -> None:
            _run(place, missing, executor, roster, label, progress)

        data = assembled(place, grid, skeleton, roster.axis, compute_into_store)
    return data if asked is None else asked.answers(data, progress)


class _Memory:
    """Where chunks go without a store."""

    def __init__(self, whole: Results):
        self.whole = whole

    def put(self, chunk: Chunk, piece: ChunkResult) -> None:
        self.whole.put(chunk.members, piece)

    def said(self) -> str:
        return "nothing is stored: with store= a folder, the same call would resume"


def _run(
    place: Store | _Memory,
    chunks: list[Chunk],
    executor: int | Executor | None,
    roster: Members,
    label: str,
    progress: bool | None,
) -> None:
    """Compute chunks and put each where it belongs as soon as it is there."""
    if not chunks:
        return
    with SweepProgress(label, progress, sum(chunk.cost for chunk in chunks)) as bar:
        results = compute(executor, roster, chunks, bar)
        try:
            while True:
                found = _next(results, place)
                if found is None:
                    break
                place.put(*found)
        except (KeyboardInterrupt, OSError) as error:
            error.add_note(place.said())
            raise
        finally:
            results.close()  # pyright: ignore[reportAttributeAccessIssue]


def _next(results: ChunkResults, place: Store | _Memory) -> tuple[Chunk, ChunkResult] | None:
    """The next result; whatever an executor itself says is about lost workers."""
    try:
        return next(results, None)
    except JobError as wrapped:
        wrapped.error.add_note(place.said())
        raise wrapped.error from None
    except LostWorker as lost:
        why = lost.__cause__
        said = f"executor: a worker was lost ({why!r}). {place.said()}"
        raise RuntimeError(said) from why
