"""Many small steps compiled as one kernel instead of one kernel for every product and sum."""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import Literal

from ..numerics.jaxprs import inside

SMALL_BYTES = 2**19  # of what goes in; starting a kernel is nothing beside work on more
TRIED = (0, 10)  # the release of jax whose compiler is known to do all of this
# fmt: off
KNOWN = {
    "add", "add_any", "and", "broadcast_in_dim", "concatenate", "convert_element_type", "div",
    "eq", "iota", "lt", "max", "min", "mul", "neg", "or", "reduce_sum",
    "reshape", "select_n", "shift_left", "shift_right_logical", "slice", "split", "squeeze",
    "sqrt", "stack", "sub", "transpose", "xor",
}
# fmt: on


def in_one_kernel(function: Callable[[], Any]) -> Any:
    """function(), as one kernel where that is known to gain (jax-level, not under vmap).

    A step of a small net is some twenty kernels for XLA on a CPU, and starting them takes longer
    than their work. It can compile a call into a single one, but then has no matrix products of
    its libraries, and crashes at what it cannot do there: so all is looked at before.
    """
    jitted = jax.jit(function)
    if not _suits(jitted.trace().jaxpr):
        return jitted()
    return set_xla_metadata(jitted(), inlineable="false", xla_cpu_small_call="true")


def can_be_one_kernel(function: Callable[[], Any]) -> bool:
    """Would `in_one_kernel` make one kernel of it (jax-level)?"""
    return _suits(jax.jit(function).trace().jaxpr)


def _suits(closed: Any) -> bool:
    if jax.__version_info__[:2] != TRIED or jax.default_backend() != "cpu":
        return False
    inputs = [*closed.jaxpr.constvars, *closed.jaxpr.invars]
    size = sum(v.aval.size * v.aval.dtype.itemsize for v in inputs)
    if size > SMALL_BYTES or not _known(closed.jaxpr, loops=1):
        return False
    return _needed(closed.jaxpr).issuperset(inputs)


def _known(jaxpr: Any, loops: int) -> bool:
    """Are all operations known to work? One loop is, but not what loops inside it."""
    return all(_is_known(equation, loops) for equation in jaxpr.eqns)


def _is_known(equation: Any, loops: int) -> bool:
    name = equation.primitive.name
    if name == "dot_general":
        return _thin(equation)
    if name in {"gather", "dynamic_slice"}:
        return _looks_up(equation)
    if name not in {"jit", "while"}:
        return name in KNOWN
    loops -= name == "while"
    return loops >= 0 and all(_known(part, loops) for part in inside(equation))


def _thin(dot: Any) -> bool:
    """Is it a matrix times a vector, or a vector times a vector?"""
    (contracted, _), (batch, _) = dot.params["dimension_numbers"]
    left, right = (v.aval for v in dot.invars)
    inner = math.prod(left.shape[axis] for axis in contracted)
    return not batch and (inner == 1 or min(left.size, right.size) <= inner)


def _looks_up(lookup: Any) -> bool:
    """Does the result depend on the indices? Not where all of an axis is taken."""
    shape, sizes = lookup.invars[0].aval.shape, lookup.params["slice_sizes"]
    if lookup.primitive.name == "gather":
        axes = lookup.params["dimension_numbers"].start_index_map
    else:
        axes = [i for i, v in enumerate(lookup.invars[1:]) if not isinstance(v, Literal)]
    return all(shape[i] > sizes[i] for i in axes)


def _needed(jaxpr: Any) -> set[Any]:
    """The variables that a result depends on: the compiler crashes at an input that is none."""
    needed = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed.update(v for v in _read(equation) if not isinstance(v, Literal))
    return needed


def _read(equation: Any) -> list[Any]:
    """What an operation reads."""
    params, given = equation.params, equation.invars
    if equation.primitive.name == "while":
        cond, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
        fixed = cond.invars[: params["cond_nconsts"]] + body.invars[: params["body_nconsts"]]
        read = _needed(cond) | _needed(body)
        carried = given[len(fixed) :]
        return [v for v, own in zip(given, fixed, strict=False) if own in read] + carried
    if equation.primitive.name == "jit":
        part = params["jaxpr"].jaxpr
        read = _needed(part)
        return [v for v, own in zip(given, part.invars, strict=True) if own in read]
    return given
