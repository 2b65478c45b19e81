"""Our own pool of processes."""

import contextlib
import sys
import types
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from .environment import xla_threads
from .worker import settle


class _Child(SpawnProcess):
    """A process that does not run the parent's script again: all it needs travels to it."""

    def start(self) -> None:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    """Starts fresh processes (a fork would deadlock once jax has run) and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.children: list[_Child] = []

    def Process(self, *args: Any, **kwargs: Any) -> _Child:  # pyright: ignore
        """What the pool starts."""
        child = _Child(*args, **kwargs)
        self.children.append(child)
        return child


@contextlib.contextmanager
def own_pool(workers: int) -> Iterator[Executor]:
    """A pool that leaves no process behind, however the block ends."""
    context = _Context()
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=settle, initargs=(xla_threads(),)
    )
    try:
        yield pool
    except BaseException:
        for child in context.children:
            if child.is_alive():
                child.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
