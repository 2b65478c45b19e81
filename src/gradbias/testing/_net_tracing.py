"""A user's function under jax: can it be traced, what does it return, in which precision?"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import Jaxpr
from numpy.typing import ArrayLike

from ..numerics.jaxprs import inside
from ..numerics.pytrees import Module
from ..numerics.types import PyTree
from ._report import Notes, said

SINGLE = ("float32", "float16", "bfloat16")

# What jax raises where Python or NumPy needs a number and there is none yet.
NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


@contextlib.contextmanager
def any_promotion() -> Iterator[None]:
    """Jax's default rules for mixed types, whatever the caller's: a leak is then seen as one."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def traced(notes: Notes, what: str, function: Callable[..., Any], *args: PyTree) -> PyTree:
    """The shapes of a function's result, or None after a finding that says why not.

    Args:
        notes: where findings go.
        what: how to call the function, such as "predictor".
        function: what the user wrote.
        args: arrays, or their shapes.
    """
    try:
        jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    except NOT_TRACEABLE as error:
        notes.find(
            f"{what} cannot be compiled: it needs the value of an array before there is one. "
            "Write it with jax.numpy instead of numpy, and jnp.where instead of if "
            f"({said(error)})"
        )
        return None
    except Exception as error:  # whatever the user's code raises is a finding
        notes.find(f"{what} fails: {said(error)}")
        return None
    single = sorted({str(d) for d in _dtypes(jaxpr.jaxpr) if d in SINGLE})
    if single and not notes.single:
        notes.single = True
        notes.find(
            f"{what} computes in {', '.join(single)}, where results have seven digits or fewer: "
            "make constants with numpy instead of jax.numpy, and leave out dtypes"
        )
    return shapes


def _dtypes(jaxpr: Jaxpr) -> Iterator[str]:
    """The types of all numbers in a program, also inside its loops and branches."""
    for variable in [*jaxpr.constvars, *(v for eqn in jaxpr.eqns for v in eqn.outvars)]:
        yield str(getattr(variable.aval, "dtype", ""))
    for eqn in jaxpr.eqns:
        for program in inside(eqn):
            yield from _dtypes(program)


def check_fields(notes: Notes, module: Module) -> None:
    """Arrays that a module holds: in double precision."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(module):
        if str(getattr(leaf, "dtype", "")) in SINGLE:
            notes.single = True
            notes.find(
                f"its field {jax.tree_util.keystr(path)} is {leaf.dtype}: make it with "
                "np.asarray(…, np.float64)"
            )


def refuse_class(name: str, value: object, kind: type) -> None:
    """Refuse what is not an instance of `kind`."""
    if isinstance(value, type) and issubclass(value, kind):
        raise ValueError(f"{name} must be an instance, got the class {value.__name__} itself")
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")


def relative(a: ArrayLike, b: ArrayLike) -> float:
    """How far apart two arrays are, relative to their largest entry."""
    first = np.asarray(a)
    second = np.asarray(b)
    scale = max(np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0), 1e-300)
    return float(np.abs(first - second).max(initial=0.0) / scale)
