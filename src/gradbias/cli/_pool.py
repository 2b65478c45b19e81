"""Tasks of a command, in processes of its own."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any, TypeVar

from .._sweeps.process_pool import own_pool

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
    with own_pool(jobs) as pool:
        work = [pool.submit(do, *task) for task in tasks]
        yield from (done.result() for done in as_completed(work))
