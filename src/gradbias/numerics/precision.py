"""Float64 for the library, whatever the caller's global flag says."""

import functools
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from .programs import keyed_by

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
    """Run a public function in the float64 context, its programs keyed by the code it is given."""

    @functools.wraps(function)
    def on_host(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True), keyed_by(args, kwargs):
            return function(*args, **kwargs)

    return on_host


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function in the float64 context; it says itself by what its programs are keyed."""

    @functools.wraps(function)
    def within(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return within


def warn_of_float32(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """The shapes of a user's function; warns if it holds single-precision constants.

    Args:
        what: how to call the function in the warning.
        function: what the user wrote.
        args: what it is called with; only their shapes matter.
    """
    jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    warn_of_single(what, jaxpr.consts)
    return shapes


def warn_of_single(what: str, held: Iterable[Any]) -> None:
    """Warn if there are single-precision arrays among what a user's function holds."""
    single = [c for c in held if getattr(c, "dtype", None) in (np.float32, np.float16)]
    if single:
        listed = ", ".join(f"{c.dtype} of shape {c.shape}" for c in single[:3])
        warnings.warn(
            f"{what} holds constants in single precision ({listed}): seven digits are all that "
            "results can have. Make them with numpy instead of jax.numpy, or inside `with "
            "gradbias.float64():`. A numpy array that a program in single precision has used "
            "before stays single in jax's memory: use a copy of it.",
            stacklevel=4,
        )


def to_numpy(tree):
    """The same PyTree with NumPy leaves: no jax array leaves the library."""
    try:
        return jax.tree.map(np.asarray, tree)
    except jax.errors.TracerArrayConversionError:
        raise ValueError(
            "this function runs on the host and was called inside jit, grad or vmap: call it "
            "outside, or use the jax-level functions in gradbias.dynamics"
        ) from None
