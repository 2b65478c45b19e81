"""The other end of an executor: the one function that workers call, and the loop of our own.

Imports nothing heavy: a process of our own pool begins here.
"""

import contextlib
import os
import pickle
import queue
import signal
import struct
import threading
import traceback
from typing import IO, TYPE_CHECKING, NamedTuple

from ..numerics.progress import silence

if TYPE_CHECKING:
    from .job import Estimate, Finished

LENGTH = struct.Struct(">Q")  # in front of every message between a process and its pool

stopped: set[str] = set()  # sweeps that were given up while threads of this process work for them


class Failure(NamedTuple):
    """An error in the job itself: the error, if it can travel, and what it said."""

    content: bytes | None
    text: str
    what: str

    @classmethod
    def of(cls, error: BaseException, what: str) -> "Failure":
        """Make an error ready to travel."""
        try:
            content = pickle.dumps(error)
            pickle.loads(content)
        except Exception:  # whatever an error that does not want to be pickled says
            content = None
        return cls(content, "".join(traceback.format_exception(error)), what)

    def error(self) -> Exception:
        """The error, as it was raised on the worker."""
        if self.content is None or self.what:
            return RuntimeError(f"{self.what or 'a chunk failed'}:\n{self.text}")
        error: Exception = pickle.loads(self.content)
        error.add_note(f"raised on a worker:\n{self.text}")
        return error


def work(content: bytes) -> "Finished | Estimate | Failure":
    """Do a job that `pickling.pack` packed.

    Returns:
        What `_job.perform` returns; for an error in the job itself, the error: so what an executor
        raises is always about the executor.
    """
    from ..numerics.linalg import one_blas_thread
    from .job import perform
    from .pickling import unpack

    try:
        job = unpack(content)
    except Exception as error:
        return Failure.of(error, "the worker cannot read its work")
    try:
        job.check_imports()
        with one_blas_thread():
            return perform(job)
    except Exception as error:
        return Failure.of(error, "")


def environment_of_a_worker(threads: int) -> dict[str, str]:
    """What numpy and jax read before they start.

    Args:
        threads: of XLA, as many as the parent has: results have the same bits then.
    """
    single = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(single, "1") | {"NPROC": str(threads)}


def serve() -> None:
    """What a process of our own pool does: tasks come from its input, results go to its output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends us
    silence()
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # Tasks have no input, and what they print goes where errors go.
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    tasks = queue.SimpleQueue[bytes | None]()
    idle = threading.Event()
    threading.Thread(target=_listen, args=(requests, tasks, idle), daemon=True).start()
    with answers:
        while (content := tasks.get()) is not None:
            answer = _answer(content)
            idle.set()
            with contextlib.suppress(BrokenPipeError):  # the parent is gone
                send(answers, answer)


def _listen(
    requests: IO[bytes], tasks: "queue.SimpleQueue[bytes | None]", idle: threading.Event
) -> None:
    """Take tasks; nobody wants the answer once the parent has closed its end, or was killed."""
    idle.set()
    with requests, contextlib.suppress(EOFError):
        while True:
            content = receive(requests)
            idle.clear()
            tasks.put(content)
    if not idle.is_set():
        os._exit(1)
    tasks.put(None)


def _answer(content: bytes) -> bytes:
    """Value and failure of a task, one of them None."""
    try:
        function, args, kwargs = pickle.loads(content)
        return pickle.dumps((function(*args, **kwargs), None))
    except BaseException as error:
        return pickle.dumps((None, Failure.of(error, "")))


def send(file: IO[bytes], content: bytes) -> None:
    """Write a message."""
    file.write(LENGTH.pack(len(content)))
    file.write(content)
    file.flush()


def receive(file: IO[bytes]) -> bytes:
    """Read a message; EOFError where there will be none."""
    (length,) = LENGTH.unpack(_exactly(file, LENGTH.size))
    return _exactly(file, length)


def _exactly(file: IO[bytes], length: int) -> bytes:
    content = file.read(length)
    if len(content) < length:
        raise EOFError
    return content
