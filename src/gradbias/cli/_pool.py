"""Tasks of a command, in processes of its own."""

import concurrent.futures
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def cores() -> int:
    """The cores that this process may use; more than four jobs only wait for each other."""
    return min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)


def each(do: Callable[..., T], tasks: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[T]:
    """The results of `do(*task)` as they are finished; with one job in this process, in order.

    Args:
        do: a function at the top level of a module.
        tasks: its arguments.
        jobs: how many processes.
    """
    if jobs == 1:
        yield from (do(*task) for task in tasks)
        return
    # Not fork: a forked child hangs once jax has run in its parent.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, context, _quiet_start) as pool:
        work = [pool.submit(do, *task) for task in tasks]
        try:
            yield from (done.result() for done in concurrent.futures.as_completed(work))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _quiet_start() -> None:
    # One BLAS thread a process: two beside XLA's wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
