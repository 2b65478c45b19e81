"""Our own pool of processes.

Not the pool of the standard library: its fresh processes run the script of their parent again,
which a script without a guard does not survive, and its forked ones wait for ever once jax has run.
Ours get what they need with every task, and nothing in the parent is changed while they start.
"""

import contextlib
import json
import multiprocessing.spawn
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, TypeVar

from .environment import xla_threads
from .worker import Failure, environment_of_a_worker, receive, send

P = ParamSpec("P")
T = TypeVar("T")
PROGRAM = (
    "import json, sys; sys.path[:], sys.argv[:] = json.loads(sys.argv[1]); "
    "from gradbias._sweeps.worker import serve; serve()"
)


class ProcessPool(Executor):
    """Fresh processes, each with a thread here that hands it one task at a time.

    Args:
        workers: how many processes.
    """

    def __init__(self, workers: int) -> None:
        self._tasks = queue.SimpleQueue[tuple[Future, bytes] | None]()
        self._processes = [_started() for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._feed, args=(process,), daemon=True)
            for process in self._processes
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function, which can be imported elsewhere, in one of the processes."""
        future = Future[T]()
        self._tasks.put((future, pickle.dumps((fn, args, kwargs))))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes once their tasks are done."""
        if cancel_futures:
            self._cancel_waiting()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def kill(self) -> None:
        """End the processes now, whatever they do."""
        self._cancel_waiting()
        for process in self._processes:
            process.terminate()
        self.shutdown()

    def _cancel_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    task[0].cancel()

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        """Hand tasks to a process; those that come after it died fail as the one that it had."""
        requests = process.stdin
        answers = process.stdout
        assert requests is not None
        assert answers is not None
        while (task := self._tasks.get()) is not None:
            future, content = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                send(requests, content)
                value, failure = pickle.loads(receive(answers))
            except (EOFError, OSError):
                reason = f"a process of the pool ended with exit code {process.wait()}"
                future.set_exception(BrokenProcessPool(reason))
            except Exception as error:  # whatever an answer says that does not want to be read
                future.set_exception(error)
            else:
                _settle(future, value, failure)
        with contextlib.suppress(OSError):  # what a dead process did not take
            requests.close()
        process.wait()
        answers.close()


def _started() -> subprocess.Popen[bytes]:
    """A process that waits for tasks."""
    options = [f"-W{option}" for option in sys.warnoptions]
    python = os.fsdecode(multiprocessing.spawn.get_executable())
    return subprocess.Popen(
        [python, *options, "-c", PROGRAM, json.dumps([sys.path, sys.argv])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment_of_a_worker(xla_threads())},
    )


def _settle(future: Future[T], value: T, failure: Failure | None) -> None:
    if failure is None:
        future.set_result(value)
    else:
        future.set_exception(failure.error())


@contextlib.contextmanager
def own_pool(workers: int) -> Iterator[Executor]:
    """A pool that leaves no process behind, however the block ends."""
    pool = ProcessPool(workers)
    try:
        yield pool
    except BaseException:
        pool.kill()
        raise
    pool.shutdown()
