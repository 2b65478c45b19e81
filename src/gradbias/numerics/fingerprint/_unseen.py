"""What code may look at that cannot be followed: said, never passed over."""

import dataclasses
import io
import os
import random
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Unseen:
    """A part whose content is not known, and why."""

    why: str


FILES = "reads a file"
ENVIRONMENT = "reads environment variables"
NAMES = "looks names up while it runs"
RANDOM = "draws from a random state"
CLOCK = "reads a clock"

_RULES = {
    FILES: (
        *("builtins.open", "io.open", "_io.open", "os.open", "pathlib.Path", "json.load"),
        "pathlib._local.Path",  # its name in Python 3.13
        *("pickle.load", "_pickle.load", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt"),
        *("numpy.fromfile", "numpy.memmap", "jax.numpy.load", "scipy.io.loadmat", "h5py.File"),
        *("pandas.read_csv", "pandas.read_parquet", "xarray.open_dataset", "builtins.input"),
    ),
    ENVIRONMENT: ("os.environ", "os.environb", "os.getenv"),
    NAMES: (
        *("builtins.globals", "builtins.eval", "builtins.exec", "builtins.__import__"),
        *("sys.modules", "sys._getframe", "importlib.import_module", "inspect.currentframe"),
        *("gc.get_objects", "ctypes.CDLL"),
    ),
    CLOCK: (
        *("time.time", "time.time_ns", "time.monotonic", "time.perf_counter"),
        *("datetime.datetime.now", "datetime.datetime.today", "datetime.datetime.utcnow"),
    ),
}
_WHY = {name: why for why, names in _RULES.items() for name in names}
_SEEDED = {"default_rng", "Generator", "RandomState", "SeedSequence", "PCG64", "Philox", "MT19937"}
_RANDOM_STATES = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


def unseen_name(base: str, attributes: tuple[str, ...]) -> tuple[str, Unseen] | None:
    """A library's name behind which there is something that cannot be followed, if it is one.

    Args:
        base: the full name of a module, class or function.
        attributes: what the code takes of it.
    """
    names = [base]
    for attribute in attributes:
        names.append(f"{names[-1]}.{attribute}")
    for name in names:
        if name in _WHY:
            return name, Unseen(_WHY[name])
        package, _, last = name.rpartition(".")
        drawn = package == "numpy.random" and last not in _SEEDED
        if drawn or (package == "random" and last != "Random") or package == "secrets":
            return name, Unseen(RANDOM)
    return None


def unseen_object(value: Any) -> Unseen | None:
    """Why the content of an object cannot be known, if that is clear from its type."""
    if isinstance(value, _RANDOM_STATES):
        return Unseen(RANDOM)
    if isinstance(value, io.IOBase):
        return Unseen(FILES)
    return Unseen(ENVIRONMENT) if value is os.environ else None
