"""Own nets without a class."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax

from ..numerics.types import Array, PyTree
from .base import LinearNet, Net, Shapes


class FunctionLinear(LinearNet):
    """A linear net made from a function; see `linear`."""

    function: Callable[[Any], Any] = eqx.field(static=True)
    layout: tuple[tuple[str, tuple[int, ...]], ...] | None = eqx.field(static=True)

    def predictor(self, params: PyTree) -> Array:
        return self.function(params)

    def shapes(self) -> Shapes | None:
        return None if self.layout is None else dict(self.layout)


class FunctionNet(Net):
    """A net made from a function; see `general`."""

    function: Callable[[Any, Any], Any] = eqx.field(static=True)
    layout: tuple[tuple[str, tuple[int, ...]], ...] | None = eqx.field(static=True)

    def __call__(self, params: PyTree, X: Array) -> jax.Array:
        return self.function(params, X)

    def shapes(self) -> Shapes | None:
        return None if self.layout is None else dict(self.layout)


def linear(
    function: Callable[[Any], Any], shapes: Mapping[str, tuple[int, ...]] | None = None
) -> FunctionLinear:
    """A linear net from a function params → Θ, (d, k) or (d,).

    Args:
        function: written with jax.numpy.
        shapes: the shape of every parameter, if random inits are to know them.
    """
    return FunctionLinear(_callable("function", function), _layout(shapes))


def general(
    function: Callable[[Any, Any], Any], shapes: Mapping[str, tuple[int, ...]] | None = None
) -> FunctionNet:
    """A net from a function (params, X) → outputs, (n, k) or (n,).

    Args:
        function: written with jax.numpy.
        shapes: the shape of every parameter, if random inits are to know them.
    """
    return FunctionNet(_callable("function", function), _layout(shapes))


def _callable(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if not callable(function):
        raise ValueError(f"{name} must be a function, got {function!r:.80}")
    return function


def _layout(shapes: Mapping[str, tuple[int, ...]] | None):
    if shapes is None:
        return None
    return tuple((str(name), tuple(shape)) for name, shape in shapes.items())
