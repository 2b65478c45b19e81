"""What the bits of a result depend on beside its setup."""

import functools
import os
import platform
import re
from pathlib import Path
from typing import NamedTuple

from .._engine.run import versions
from .._engine.single_kernel import SWITCH


class Environment(NamedTuple):
    """Where a chunk was computed.

    Attributes:
        jax: the versions of jax and jaxlib, and whether its single kernels are switched off.
        cpu: the type of the processor.
        threads: how many XLA has.
    """

    jax: str
    cpu: str
    threads: int

    @classmethod
    def here(cls) -> "Environment":
        """The present process."""
        installed = versions()
        off = ", GRADBIAS_SINGLE_KERNEL=0" if os.environ.get(SWITCH) == "0" else ""
        jax = f"{installed['jax']} (jaxlib {installed['jaxlib']}{off})"
        return cls(jax, _cpu(), xla_threads())

    def difference(self, now: "Environment") -> str | None:
        """What changed, in words; None if nothing did."""
        names = {"jax": "jax", "cpu": "the processor", "threads": "the number of XLA's threads"}
        changed = [
            f"{words} was {getattr(self, name)}, now {getattr(now, name)}"
            for name, words in names.items()
            if getattr(self, name) != getattr(now, name)
        ]
        return "; ".join(changed) or None


def xla_threads() -> int:
    """The size of XLA's pool: the variable NPROC, or the processors that we may use."""
    given = os.environ.get("NPROC", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return found.group(1).strip() if found else platform.processor() or platform.machine()
