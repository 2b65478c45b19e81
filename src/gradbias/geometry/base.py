"""What a geometry is: a norm, its dual norm, and the steepest direction of a gradient."""

import abc
from types import ModuleType
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..numerics import checks
from ..numerics.pytrees import Value
from ..numerics.types import Array, Number, PyTree


class Geometry(Value):
    """A norm on parameters, its dual, and the steepest direction in it.

    Methods take an array, or parameters by name; they compute with NumPy when given numbers and
    with jax when given jax arrays, so that they can be used inside compiled code.
    """

    @property
    def rotates(self) -> bool:
        """Is the norm the same after any rotation of the rows or the columns of a matrix?

        Steps of such a geometry keep what is low-dimensional in a product of matrices.
        """
        return False

    @property
    def charge_power(self) -> float | None:
        """q, where |u|^q − |v|^q of factors u·v is conserved by steepest flow; None if none is.

        Of matrix norms it is the power of the singular values, of layers that are aligned.
        """
        return None

    @abc.abstractmethod
    def norm(self, x: PyTree) -> Number:
        """‖x‖."""

    @abc.abstractmethod
    def dual_norm(self, g: PyTree) -> Number:
        """‖g‖_* = max ⟨s, g⟩ over ‖s‖ ≤ 1."""

    @abc.abstractmethod
    def steepest(self, g: PyTree) -> PyTree:
        """The s with ‖s‖ ≤ 1 and the largest ⟨s, g⟩, shaped like g; zero where g is zero.

        Also known as the linear minimisation oracle (LMO) at −g.
        """


GeometryLike: TypeAlias = Geometry | type[Geometry]


def as_geometry(name: str, value: object) -> Geometry:
    """A geometry, or a class of them that needs no arguments; a ValueError for all else."""
    if isinstance(value, Geometry):
        return value
    if isinstance(value, type) and issubclass(value, Geometry):
        try:
            return value()
        except TypeError:
            raise ValueError(
                f"{name} must be a geometry, got the class {value.__name__}, which needs "
                f"arguments: call it, as in gb.geometry.{value.__name__}(…)"
            ) from None
    raise ValueError(
        f"{name} must be a geometry such as gb.geometry.L2 or gb.geometry.Spectral, "
        f"got {value!r:.80}"
    )


def module_of(x: object) -> ModuleType:
    """NumPy for numbers, so that nothing is rounded to single precision; jax for jax arrays."""
    return jnp if checks.is_jax(x) else np


def as_array(x: PyTree) -> Array:
    """What was given as an array of doubles; jax arrays stay what they are."""
    return x if checks.is_jax(x) else checks.array("x", x)


def flat(x: PyTree) -> tuple[list[Array], PyTree]:
    """The arrays of parameters, in the order of their names, and the structure around them."""
    if not isinstance(x, (dict, Value)):
        return [as_array(x)], None
    leaves, structure = jax.tree.flatten(x)
    return [as_array(leaf) for leaf in leaves], structure


def shaped(leaves: list[Array], structure: PyTree) -> PyTree:
    """The way back from `flat`."""
    return leaves[0] if structure is None else jax.tree.unflatten(structure, leaves)
