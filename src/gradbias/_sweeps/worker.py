"""The other end of an executor: the one function that workers call.

Imports nothing heavy: a new process gets its settings (`settle`) before numpy and jax start.
"""

import os
import signal
import threading
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

stopped: set[str] = set()  # sweeps that were given up while threads of this process work for them


def settle(threads: int) -> None:
    """Make a new process one of our own pool.

    Args:
        threads: of XLA, as many as the parent has: results have the same bits then.
    """
    os.environ |= dict.fromkeys(THREADS, "1") | {"NPROC": str(threads)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends us
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """A parent that is killed cannot tell its workers."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def work(content: bytes) -> Any:
    """Do a job that `pickling.pack` packed.

    Returns:
        What `_job.perform` returns; for an error in the job itself, the error: so what an executor
        raises is always about the executor.
    """
    from ..numerics.linalg import one_blas_thread
    from .job import Failure, perform
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
