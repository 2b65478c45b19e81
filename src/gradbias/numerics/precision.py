"""Float64 for the library, whatever the caller's global flag says."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

import jax
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def float64() -> AbstractContextManager[None]:
    """Context in which jax computes in double precision.

    It is local to the thread and leaves the global flag as it was. Needed only around
    `gb.dynamics`, the jax-level functions; everything else enters it by itself.
    """
    return jax.enable_x64(True)  # pyright: ignore[reportReturnType]


def require_float64(what: str) -> None:
    """Refuse to run `what` in single precision."""
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise ValueError(
            f"{what} needs double precision, but jax is in single precision here: "
            "call it inside `with gradbias.float64():`, or switch jax_enable_x64 on."
        )


def host(function: Callable[P, R]) -> Callable[P, R]:
    """Run a public function in the float64 context."""

    @functools.wraps(function)
    def in_float64(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return in_float64


def to_numpy(tree):
    """The same PyTree with NumPy leaves: no jax array leaves the library."""
    return jax.tree.map(np.asarray, tree)
