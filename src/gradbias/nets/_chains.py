"""Products of weight matrices: two-layer and deep linear nets."""

import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx

from .._generators.mixing import pair
from .._generators.symmetry import Symmetry
from ..numerics import checks
from ..numerics.types import PyTree
from .base import ChainNet, Shapes


class TwoLayer(ChainNet):
    """Θ = W1 W2 with W1 (d, width) and W2 (width, k).

    Args:
        d: inputs.
        k: outputs.
        width: hidden units.
    """

    d: int = eqx.field(static=True)
    k: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, d: int, k: int, width: int):
        self.d = checks.integer("d", d, at_least=1)
        self.k = checks.integer("k", k, at_least=1)
        self.width = checks.integer("width", width, at_least=1)

    @property
    def chain(self) -> tuple[int, ...]:
        return (self.d, self.width, self.k)

    def shapes(self) -> Shapes:
        return {"W1": (self.d, self.width), "W2": (self.width, self.k)}

    def symmetries(self) -> dict[str, Symmetry]:
        return seams(["W1", "W2"])

    def factors(self, params: PyTree) -> list[Any]:
        return [params["W1"], params["W2"]]

    def from_factors(self, factors: list[Any]) -> dict[str, Any]:
        return dict(zip(("W1", "W2"), factors, strict=True))


class Deep(ChainNet):
    """Θ = W1 W2 … WN with Wi (dims[i−1], dims[i]); one layer is legal.

    Args:
        dims: the sizes [d, h1, …, k].
    """

    dims: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dims: Sequence[int]):
        self.dims = sizes("dims", dims)

    @property
    def chain(self) -> tuple[int, ...]:
        return self.dims

    def shapes(self) -> Shapes:
        pairs = zip(self.dims[:-1], self.dims[1:], strict=True)
        return {f"W{i}": pair for i, pair in enumerate(pairs, start=1)}

    def symmetries(self) -> dict[str, Symmetry]:
        return seams([f"W{i}" for i in range(1, len(self.dims))])

    def factors(self, params: PyTree) -> list[Any]:
        return [params[f"W{i}"] for i in range(1, len(self.dims))]

    def from_factors(self, factors: list[Any]) -> dict[str, Any]:
        return {f"W{i}": factor for i, factor in enumerate(factors, start=1)}


def seams(layers: list[str]) -> dict[str, Symmetry]:
    """The pairs of layers with nothing but a product between them."""
    return {f"{a}-{b}": pair(a, b) for a, b in itertools.pairwise(layers)}


def sizes(name: str, dims: Sequence[int]) -> tuple[int, ...]:
    """Layer sizes, checked: at least an input and an output."""
    if isinstance(dims, (str, bytes)) or not hasattr(dims, "__len__") or len(dims) < 2:
        raise ValueError(f"{name} must list at least two sizes [d, …, k], got {dims!r:.80}")
    return tuple(checks.integer(f"{name}[{i}]", size, at_least=1) for i, size in enumerate(dims))
