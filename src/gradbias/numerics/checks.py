"""Arguments: what was given, what is needed, said before anything is compiled."""

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .constants import is_constant, sealed

Shape = Sequence[int | None]


def is_jax(value: object) -> bool:
    """Is `value` a jax array or tracer? Does not import jax."""
    return "jax" in sys.modules and isinstance(value, sys.modules["jax"].Array)


def is_traced(value: object) -> bool:
    """Is `value` being traced by jax? Does not import jax."""
    return is_jax(value) and isinstance(value, sys.modules["jax"].core.Tracer)


def refuse_tracer(name: str, value: object) -> None:
    """Host functions compute with numbers; inside jit or grad there are none."""
    if is_traced(value):
        raise ValueError(
            f"{name} is being traced by jax (jit, grad or vmap), but this function runs on the "
            "host: call it with arrays, or use the jax-level functions in gradbias.dynamics."
        )


def _shape_words(shape: Shape) -> str:
    words = ["any" if s is None else str(s) for s in shape]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def array(
    name: str, value: object, *, ndim: Sequence[int] | None = None, shape: Shape | None = None
) -> np.ndarray:
    """`value` as a finite float64 array of the right shape, or a ValueError that says why not.

    Args:
        name: the argument's name, for the message.
        value: anything `np.asarray` takes.
        ndim: the numbers of axes that are allowed.
        shape: the shape that is needed; `None` stands for any length.
    """
    return _checked(name, _doubles(_real(name, value)), ndim, shape)


def constant_array(
    name: str, value: object, *, ndim: Sequence[int] | None = None, shape: Shape | None = None
) -> np.ndarray:
    """The same, but read-only; an array that is constant already is not copied."""
    given = _real(name, value)
    if given.dtype == np.float64 and is_constant(given):
        return _checked(name, given, ndim, shape)
    return sealed(_checked(name, _doubles(given), ndim, shape))


def _real(name: str, value: object) -> np.ndarray:
    """An array of real numbers, as it was given."""
    refuse_tracer(name, value)
    if isinstance(value, np.ma.MaskedArray) and np.any(value.mask):
        raise ValueError(
            f"{name} must be complete, got an array with {value.mask.sum()} masked values"
        )
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be an array of real numbers, got {type(value).__name__} {value!r:.80}"
        ) from None
    if given.dtype.kind == "f" and given.dtype.itemsize < 8:
        warnings.warn(
            f"{name} is {given.dtype}: computing in float64 from its rounded values. "
            "Make it in float64 to keep all digits.",
            stacklevel=4,
        )
    return given


def _doubles(given: np.ndarray) -> np.ndarray:
    """A copy in float64."""
    if given.dtype == np.float64:
        return given.copy(order="K")
    with np.errstate(over="ignore"):  # too large for float64: `_checked` says so
        return np.array(given, dtype=np.float64)


def _checked(
    name: str, result: np.ndarray, ndim: Sequence[int] | None, shape: Shape | None
) -> np.ndarray:
    """The array, if it is finite and has the right shape."""
    if ndim is not None and result.ndim not in ndim:
        need = " or ".join(str(n) for n in ndim)
        raise ValueError(f"{name} must have {need} axes, got shape {result.shape}")
    if shape is not None:
        shaped(name, result, shape)
    if not np.isfinite(result).all():
        where = np.argwhere(~np.isfinite(np.atleast_1d(result)))[0].tolist()
        bad = np.atleast_1d(result)[tuple(where)]
        raise ValueError(f"{name} must be finite, got {bad} at index {where}")
    return result


def shaped(name: str, value: np.ndarray, shape: Shape) -> np.ndarray:
    """An array that has this shape, or a ValueError that says so."""
    if not _fits(value.shape, shape):
        raise ValueError(f"{name} must have shape {_shape_words(shape)}, got {value.shape}")
    return value


def _fits(got: tuple[int, ...], need: Shape) -> bool:
    return len(got) == len(need) and all(
        n is None or g == n for g, n in zip(got, need, strict=True)
    )


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
) -> float:
    """`value` as a finite float within its bounds, or a ValueError that says why not."""
    refuse_tracer(name, value)
    try:
        if isinstance(value, (str, bytes, bool)) or (
            not isinstance(value, (int, float)) and np.ndim(value) != 0
        ):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name} must be a number, got {type(value).__name__} {value!r:.80}"
        ) from None
    need = None
    if above is not None and not result > above:
        need = f"greater than {above}"
    elif at_least is not None and not result >= at_least:
        need = f"at least {at_least}"
    elif below is not None and not result < below:
        need = f"less than {below}"
    elif not math.isfinite(result):
        need = "finite"
    if need is not None:
        raise ValueError(f"{name} must be {need}, got {result}")
    return result


def integer(name: str, value: Any, *, at_least: int = 0) -> int:
    """`value` as an int of at least `at_least`, or a ValueError that says why not."""
    refuse_tracer(name, value)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, got {value!r:.80}")
    return int(value)


def boolean(name: str, value: object) -> bool:
    """`value` if it is True or False, or a ValueError."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r:.80}")
    return value


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """`value` if it is one of `choices`, or a ValueError that lists them."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r:.80}"
        )
    return value
