"""How many programs XLA compiled: silent recompilation is what makes jax slow.

And room for them: every program holds some ten memory maps. Linux allows a process 65 530 of these
by default, which is a few hundred different setups; beyond them XLA crashes.
"""

import contextlib
import functools
import gc
import pathlib
import threading
from collections.abc import Iterator

import jax
import jax.monitoring

LOOK_EVERY = 100  # compilations: a look takes 10 ms where there are many maps
_MAPS = pathlib.Path("/proc/self/maps")
_MOST_MAPS = pathlib.Path("/proc/sys/vm/max_map_count")
_EVENT = "/jax/core/compile/backend_compile_duration"
_counters: list["Counter"] = []
_since_look = 0


class Counter:
    """Programs compiled by this thread while the counter was open."""

    def __init__(self) -> None:
        self.count = 0
        self.thread: int = threading.get_ident()


def _listen(event: str, duration_secs: float, **_: object) -> None:
    global _since_look
    if event == _EVENT:
        _since_look += 1
        for counter in _counters:
            counter.count += counter.thread == threading.get_ident()


@functools.cache
def _listening() -> None:
    """Listen from now on, for as long as the process lives: programs stay as long."""
    jax.monitoring.register_event_duration_secs_listener(_listen)


@contextlib.contextmanager
def count_compilations() -> Iterator[Counter]:
    """Count the compilations inside the block."""
    _listening()
    counter = Counter()
    _counters.append(counter)
    try:
        yield counter
    finally:
        _counters.remove(counter)


def make_room() -> None:
    """Forget compiled programs where they hold half of all memory maps that a process may have.

    Those of the user's own functions, too: jax has one memory for all, and compiles anew what is
    called again.
    """
    global _since_look
    _listening()
    if _since_look < LOOK_EVERY:
        return
    _since_look = 0
    if memory_maps() > _most_memory_maps() / 2:
        jax.clear_caches()
        gc.collect()  # what a program refers to may refer to the program


def memory_maps() -> int:
    """How many there are now; 0 where the system does not tell."""
    try:
        return _MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def _most_memory_maps() -> float:
    try:
        return float(_MOST_MAPS.read_text())
    except (OSError, ValueError):
        return float("inf")
