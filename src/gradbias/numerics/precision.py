"""Float64 for the library, whatever the caller's global flag says."""

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from .program_keys import keyed_by
from .types import PyTree

P = ParamSpec("P")
R = TypeVar("R")
STRICT = (
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_transfer_guard",
    "jax_transfer_guard_host_to_device",
    "jax_transfer_guard_device_to_device",
    "jax_transfer_guard_device_to_host",
)
USUAL = (None, False, "allow")
NOTHING = contextlib.nullcontext()

_forked = False  # is this process a copy of one in which jax had started?


def _note_fork() -> None:
    global _forked
    _forked |= bool(getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", True))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


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
        _refuse_fork()
        with jax.enable_x64(True), _own_rules(), keyed_by(*args, *kwargs.values()):
            return function(*args, **kwargs)

    return on_host


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function in the float64 context; it says itself by what its programs are keyed."""

    @functools.wraps(function)
    def within(*args: P.args, **kwargs: P.kwargs) -> R:
        _refuse_fork()
        with jax.enable_x64(True), _own_rules():
            return function(*args, **kwargs)

    return within


def _refuse_fork() -> None:
    if _forked:
        raise RuntimeError(
            "this process was forked from one in which jax had started, and jax would wait "
            "for threads that are not here: start processes with multiprocessing's method "
            '"spawn" or "forkserver", or let gb.sweep(…, executor=4) do it'
        )


def _own_rules() -> AbstractContextManager[Any]:
    """Without jax's tools to find errors in a program, which would find what is none.

    Numbers that are not finite are answers here (a run that diverged, a row that was not
    measured), and NumPy arrays are handed to compiled code on purpose.
    """
    if not any(getattr(jax.config, name) not in USUAL for name in STRICT):
        return NOTHING
    rules = contextlib.ExitStack()
    rules.enter_context(jax.debug_nans(False))
    rules.enter_context(jax.debug_infs(False))
    rules.enter_context(jax.transfer_guard("allow"))
    return rules


def warn_of_float32(what: str, function: Callable[..., Any], *args: PyTree) -> Any:
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


def to_numpy(tree: PyTree) -> PyTree:
    """The same PyTree with NumPy leaves: no jax array leaves the library."""
    try:
        return jax.tree.map(np.asarray, tree)
    except jax.errors.TracerArrayConversionError:
        raise ValueError(
            "this function runs on the host and was called inside jit, grad or vmap: call it "
            "outside, or use the jax-level functions in gradbias.dynamics"
        ) from None
