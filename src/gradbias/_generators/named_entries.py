"""Entries of parameters by name: what symmetries read, and how they put it back.

Everything here works on NumPy and on jax arrays alike.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

from ..numerics import checks
from ..numerics.types import Array, Number, PyTree

SYMMETRIC = 1e-12  # the largest asymmetry of a generator, relative to its largest entry


class Span(NamedTuple):
    """A slice that can be hashed."""

    start: int | None
    stop: int | None
    step: int | None


class Part(NamedTuple):
    """Some entries of one parameter."""

    name: str
    where: tuple[int | Span, ...] = ()

    @property
    def key(self) -> tuple[int | slice, ...]:
        """What goes between the brackets."""
        return tuple(slice(*i) if isinstance(i, Span) else i for i in self.where)

    def of(self, params: PyTree) -> Any:
        """These entries of `params`."""
        array = leaf(params, self.name)
        try:
            return array[self.key]
        except IndexError:
            raise ValueError(
                f"a symmetry acts on {self.name!r} at {self.key}, but its shape is {array.shape}"
            ) from None


# Where a symmetry acts: a parameter's name, or (name, index); and a list of these.
Index: TypeAlias = int | slice | tuple[int | slice, ...]
Entry: TypeAlias = Part | str | tuple[str, Index]
Entries: TypeAlias = Entry | list[Any]


def part(what: str, value: Entry) -> Part:
    """A parameter's name, or (name, index) with whole numbers and slices, as a Part."""
    if isinstance(value, Part):
        return value
    name, index = value if isinstance(value, tuple) and len(value) == 2 else (value, ())
    items = index if isinstance(index, tuple) else (index,)
    whole = (int, np.integer)
    good = all(isinstance(i, (*whole, slice)) and not isinstance(i, bool) for i in items)
    if not isinstance(name, str) or not good:
        raise ValueError(
            f"{what} must be a parameter's name or (name, index) with whole numbers or slices, "
            f"got {value!r:.80}"
        )
    return Part(
        name,
        tuple(Span(i.start, i.stop, i.step) if isinstance(i, slice) else int(i) for i in items),
    )


def parts(what: str, values: Entries) -> tuple[Part, ...]:
    """One part, or a list of them."""
    if not isinstance(values, list):
        return (part(what, values),)
    return tuple(part(f"{what}[{i}]", value) for i, value in enumerate(values))


def leaf(params: PyTree, name: str) -> Array:
    """One parameter: a jax array as it is, anything else as float64."""
    if not isinstance(params, Mapping) or name not in params:
        has = sorted(params) if isinstance(params, Mapping) else type(params).__name__
        raise ValueError(f"a symmetry acts on {name!r}, but the parameters are {has}")
    value = params[name]
    return value if checks.is_jax(value) else checks.array(f"params[{name!r}]", value)


def apart(group: Sequence[Part], params: PyTree) -> None:
    """Refuse parts that overlap: the entries there would be moved twice."""
    names = [p.name for p in group]
    for name in {name for name in names if names.count(name) > 1}:
        count = np.zeros(leaf(params, name).shape, int)
        for p in group:
            if p.name == name:
                count[p.key] += 1
        if count.max(initial=0) > 1:
            raise ValueError(f"the parts of a symmetry must not overlap, but two do in {name!r}")


def zeros(params: PyTree) -> PyTree:
    """Zeros of parameter shape."""
    return jax.tree.map(
        lambda x: jnp.zeros_like(x) if checks.is_jax(x) else np.zeros(np.shape(x)), params
    )


def copy(params: PyTree) -> PyTree:
    """The parameters, with NumPy leaves as fresh float64 arrays."""
    return jax.tree.map(lambda x: x if checks.is_jax(x) else checks.array("params", x), params)


def changed(params: PyTree, changes: Sequence[tuple[Part, Any]]) -> dict[str, Any]:
    """`params`, which may be overwritten, with new values at some parts."""
    result = dict(params)
    for p, value in changes:
        old = result[p.name]
        if not p.where:
            result[p.name] = value
        elif checks.is_jax(value) or checks.is_jax(old):
            result[p.name] = jnp.asarray(old).at[p.key].set(value)
        else:
            old[p.key] = value
    return result


def module(*values) -> ModuleType:
    """jax.numpy if one of the values is a jax array, else numpy."""
    return jnp if any(checks.is_jax(value) for value in values) else np


def number(name: str, value) -> Number:
    """A number; jax's as it is."""
    return value if checks.is_jax(value) and value.ndim == 0 else checks.number(name, value)


def amounts(name: str, value, shape: tuple[int, ...]) -> Number:
    """One number for all, or an array of the right shape."""
    if np.ndim(value) == 0:
        return number(name, value)
    if not checks.is_jax(value):
        return checks.array(name, value, shape=shape)
    if value.shape != shape:
        raise ValueError(f"{name} must be a number or of shape {shape}, got {value.shape}")
    return value


def along(values, axis: int, array: Array) -> Number:
    """`values` laid out along one axis of `array`, for a product."""
    return values if np.ndim(values) == 0 else values.reshape(_line(axis, array.ndim))


def _line(axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(-1 if i == axis else 1 for i in range(ndim))


def symmetric(name: str, value, size: int | None = None) -> np.ndarray:
    """A symmetric matrix, checked."""
    matrix = checks.array(name, value, shape=(size, size))
    if matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"{name} must be square and not empty, got shape {matrix.shape}")
    worst = np.abs(matrix - matrix.T).max()
    if worst > SYMMETRIC * np.abs(matrix).max():
        raise ValueError(
            f"{name} must be symmetric, got an asymmetry of {worst:.3g}: rotations, which have "
            "antisymmetric generators, conserve no charge of this kind"
        )
    return (matrix + matrix.T) / 2


def exponential(matrix: Array) -> Array:
    """The exponential of a symmetric matrix."""
    if checks.is_jax(matrix):
        # Not by eigenvectors: their derivative is infinite where eigenvalues are equal.
        return jax.scipy.linalg.expm(matrix)
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.exp(values)) @ vectors.T
