"""Fully connected nets with a non-linearity."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from .._generators.mixing import pair
from .._generators.symmetry import Symmetry, neurons
from ..numerics import checks
from ..numerics.types import Array, PyTree
from ._chains import sizes
from .base import Net, Shapes

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "leaky": jax.nn.leaky_relu,
    "tanh": jnp.tanh,
    "swish": jax.nn.swish,
    "linear": lambda x: x,
}


class MLP(Net):
    """X → act(X W1 + b1) → … → (·) WN + bN; no activation after the last layer.

    Args:
        dims: the sizes [d, h1, …, k].
        activation: "relu", "leaky" (slope 0.01), "tanh", "swish" or "linear".
        bias: with b1 … bN, or without.
    """

    dims: tuple[int, ...] = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)

    def __init__(self, dims: Sequence[int], activation: str = "relu", bias: bool = True):
        self.dims = sizes("dims", dims)
        self.activation = checks.one_of("activation", activation, tuple(ACTIVATIONS))
        if not isinstance(bias, bool):
            raise ValueError(f"bias must be True or False, got {bias!r:.80}")
        self.bias = bias

    def shapes(self) -> Shapes:
        shapes: Shapes = {}
        for i, (m, n) in enumerate(zip(self.dims[:-1], self.dims[1:], strict=True), start=1):
            shapes[f"W{i}"] = (m, n)
            if self.bias:
                shapes[f"b{i}"] = (n,)
        return shapes

    def symmetries(self) -> dict[str, Symmetry]:
        """Of every hidden layer: units for relu and leaky, a matrix for linear, else none."""
        found: dict[str, Symmetry] = {}
        for i in range(1, len(self.dims) - 1):
            enter = [f"W{i}", f"b{i}"] if self.bias else [f"W{i}"]
            if self.activation == "linear":
                found[f"W{i}-W{i + 1}"] = pair(enter, f"W{i + 1}")
            elif self.activation in ("relu", "leaky"):
                axes = dict(zip(enter, (1, 0), strict=False))
                found[f"hidden{i}"] = neurons(axes, {f"W{i + 1}": 0})
        return found

    def __call__(self, params: PyTree, X: Array) -> Array:
        act = ACTIVATIONS[self.activation]
        layers = len(self.dims) - 1
        for i in range(1, layers + 1):
            X = X @ params[f"W{i}"]
            if self.bias:
                X = X + params[f"b{i}"][None, :]
            X = act(X) if i < layers else X
        return X
