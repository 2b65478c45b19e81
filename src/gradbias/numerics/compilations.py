"""How many programs XLA compiled: silent recompilation is what makes jax slow."""

import contextlib
import threading
from collections.abc import Iterator

import jax.monitoring

_EVENT = "/jax/core/compile/backend_compile_duration"
_counters: list["Counter"] = []


class Counter:
    """Programs compiled by this thread while the counter was open."""

    def __init__(self) -> None:
        self.count = 0
        self.thread = threading.get_ident()


def _listen(event: str, duration_secs: float, **_: object) -> None:
    if event == _EVENT:
        for counter in _counters:
            counter.count += counter.thread == threading.get_ident()


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextlib.contextmanager
def count_compilations() -> Iterator[Counter]:
    """Count the compilations inside the block."""
    counter = Counter()
    _counters.append(counter)
    try:
        yield counter
    finally:
        _counters.remove(counter)
