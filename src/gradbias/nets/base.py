"""What a net is: a map from parameters to a predictor, or from parameters and data to outputs."""

import abc
from typing import Any, overload

import numpy as np

from .._generators.symmetry import Symmetry
from ..numerics.pytrees import Value
from ..numerics.types import Array, PyTree

Shapes = dict[str, tuple[int, ...]]


class Net(Value):
    """A model f(params, X) with outputs (n, k) or (n,).

    Subclass it for an own non-linear net: fields are its sizes, `__call__` is the model.
    """

    @abc.abstractmethod
    def __call__(self, params: PyTree, X: Array) -> Array:
        """The outputs on the rows of X."""

    def shapes(self) -> Shapes | None:
        """The shape of every parameter, by name; None if the net does not say."""
        return None

    def symmetries(self) -> dict[str, Symmetry]:
        """What leaves the loss of every sample unchanged, by name; empty if nothing is known.

        An own net names its own, made with the functions of `gradbias.symmetry`.
        """
        return {}


class LinearNet(Net):
    """A net that is linear in its input: parameters make a predictor Θ, outputs are XΘ.

    Subclass it for an own linear net: fields are its sizes, `predictor` is the map.
    """

    @abc.abstractmethod
    def predictor(self, params: PyTree) -> Array:
        """Θ, (d, k) or (d,)."""

    def __call__(self, params: PyTree, X: Array) -> Array:
        return X @ as_matrix(self.predictor(params))


class ChainNet(LinearNet):
    """A linear net whose predictor is a product of matrices, Θ = F1 F2 … FN.

    Products are what the exact closure reduces; `factors` and `from_factors` translate.
    """

    @property
    @abc.abstractmethod
    def chain(self) -> tuple[int, ...]:
        """The sizes (d, h1, …, k) between which the factors map."""

    @abc.abstractmethod
    def factors(self, params: PyTree) -> list[Any]:
        """The matrices F1 … FN of these parameters."""

    @abc.abstractmethod
    def from_factors(self, factors: list[Any]) -> dict[str, Any]:
        """The parameters whose factors these are."""

    def predictor(self, params: PyTree) -> Array:
        return product(self.factors(params))


@overload
def as_matrix(theta: np.ndarray) -> np.ndarray: ...


@overload
def as_matrix(theta: Array) -> Array: ...


def as_matrix(theta: Array) -> Array:
    """A predictor as a matrix: (d,) becomes (d, 1)."""
    return theta[:, None] if theta.ndim == 1 else theta


def product(factors: list[Any]) -> Array:
    """F1 F2 … FN, multiplied from its narrow end: ten times cheaper with one output."""
    from_right = factors[0].shape[0] >= factors[-1].shape[1]
    rest = list(factors)
    result = rest.pop() if from_right else rest.pop(0)
    while rest:
        result = rest.pop() @ result if from_right else result @ rest.pop(0)
    return result
