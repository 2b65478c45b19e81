"""Many small steps compiled as one kernel instead of one kernel for every product and sum."""

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from ..dynamics import State
from ..numerics.jaxprs import inside

SMALL_BYTES = 2**19  # of what goes in; starting a kernel is nothing beside work on more
SWITCH = "GRADBIAS_SINGLE_KERNEL"  # an environment variable; 0 is off
TRIED = {(0, 10)}  # releases of jax whose compiler is known to do all of this
# fmt: off
KNOWN = {
    "add", "add_any", "and", "broadcast_in_dim", "concatenate", "convert_element_type", "div",
    "eq", "exp", "iota", "lt", "max", "min", "mul", "neg", "or", "reduce_sum",
    "reshape", "select_n", "shift_left", "shift_right_logical", "slice", "split", "squeeze",
    "sqrt", "stack", "sub", "transpose", "xor",
}
# fmt: on


class CompiledSteps(NamedTuple):
    """A function of steps, ready to be called (jax-level, not under vmap).

    Attributes:
        call: calls it.
        single: is it one kernel?
    """

    call: Callable[[], State]
    single: bool


def is_on() -> bool:
    """May anything be one kernel here?"""
    known = jax.__version_info__[:2] in TRIED and jax.default_backend() == "cpu"
    return known and os.environ.get(SWITCH, "1") != "0"


def compiled_steps(function: Callable[[], State], allowed: bool) -> CompiledSteps:
    """A function, as one kernel where that is allowed and known to gain.

    A step of a small net is some twenty kernels for XLA on a CPU, and starting them takes longer
    than their work. It can compile a call into a single one, but then has no matrix products of
    its libraries, and crashes at what it cannot do there: so all is looked at before.
    """
    jitted = jax.jit(function)
    if not (allowed and _suits(jitted.trace().jaxpr)):
        return CompiledSteps(jitted, single=False)

    def in_one_kernel() -> Any:
        return set_xla_metadata(jitted(), inlineable="false", xla_cpu_small_call="true")

    return CompiledSteps(in_one_kernel, single=True)


def _suits(closed: ClosedJaxpr) -> bool:
    inputs = [*closed.jaxpr.constvars, *closed.jaxpr.invars]
    size = sum(v.aval.size * v.aval.dtype.itemsize for v in inputs)
    if size > SMALL_BYTES or not _known(closed.jaxpr, loops=1):
        return False
    return _needed(closed.jaxpr).issuperset(inputs)


def _known(jaxpr: Jaxpr, loops: int) -> bool:
    """Are all operations known to work? One loop is, but not what loops inside it."""
    return all(_is_known(equation, loops) for equation in jaxpr.eqns)


def _is_known(equation: JaxprEqn, loops: int) -> bool:
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
    shape = lookup.invars[0].aval.shape
    sizes = lookup.params["slice_sizes"]
    if lookup.primitive.name == "gather":
        axes = lookup.params["dimension_numbers"].start_index_map
    else:
        axes = [i for i, v in enumerate(lookup.invars[1:]) if not isinstance(v, Literal)]
    return all(shape[i] > sizes[i] for i in axes)


def _needed(jaxpr: Jaxpr) -> set[Any]:
    """The variables that a result depends on: the compiler crashes at an input that is none."""
    needed = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed.update(v for v in _read(equation) if not isinstance(v, Literal))
    return needed


def _read(equation: JaxprEqn) -> list[Any]:
    """What an operation reads."""
    params = equation.params
    given = equation.invars
    if equation.primitive.name == "while":
        cond = params["cond_jaxpr"].jaxpr
        body = params["body_jaxpr"].jaxpr
        fixed = cond.invars[: params["cond_nconsts"]] + body.invars[: params["body_nconsts"]]
        read = _needed(cond) | _needed(body)
        carried = given[len(fixed) :]
        return [v for v, own in zip(given, fixed, strict=False) if own in read] + carried
    if equation.primitive.name == "jit":
        part = params["jaxpr"].jaxpr
        read = _needed(part)
        return [v for v, own in zip(given, part.invars, strict=True) if own in read]
    return given
