"""Rank-1 linear nets: every hidden matrix is an outer product."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._generators.mixing import pair
from .._generators.symmetry import Symmetry, rescaling
from ..numerics import checks
from ..numerics.types import PyTree
from .base import ChainNet, Shapes


class Rank1(ChainNet):
    r"""Θ = ξ·v1 with $\xi = \prod_k \langle u[k], v[k]\rangle$, a net of `depth` rank-1 layers.

    Parameters: v1 (d,), u (depth − 1, width), v (depth − 1, width); u[k] is the paper's
    $u_{k+1}$ and v[k] its $v_{k+2}$. It is also a chain of 2·depth − 1 factors of sizes
    d, 1, width, 1, …, 1.

    Args:
        d: inputs.
        depth: the number of layers L.
        width: hidden units.
    """

    d: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, d: int, depth: int, width: int):
        self.d = checks.integer("d", d, at_least=1)
        self.depth = checks.integer("depth", depth, at_least=1)
        self.width = checks.integer("width", width, at_least=1)

    @property
    def chain(self) -> tuple[int, ...]:
        return (self.d, 1, *((self.width, 1) * (self.depth - 1)))

    def shapes(self) -> Shapes:
        pairs = (self.depth - 1, self.width)
        return {"v1": (self.d,), "u": pairs, "v": pairs}

    def symmetries(self) -> dict[str, Symmetry]:
        """‖v1‖² − ‖u[k]‖² and the matrix u[k]u[k]ᵀ − v[k]v[k]ᵀ, for every k."""
        found: dict[str, Symmetry] = {}
        for k in range(self.depth - 1):
            found[f"v1-u[{k}]"] = rescaling("v1", ("u", k))
            found[f"u[{k}]-v[{k}]"] = pair(("u", k), ("v", k))
        return found

    def predictor(self, params: PyTree) -> jax.Array:
        overlaps = jnp.sum(params["u"] * params["v"], axis=1)
        return jnp.prod(overlaps) * params["v1"]

    def factors(self, params: PyTree) -> list[Any]:
        factors = [params["v1"][:, None]]
        for k in range(self.depth - 1):
            factors += [params["u"][k][None, :], params["v"][k][:, None]]
        return factors

    def from_factors(self, factors: list[Any]) -> dict[str, Any]:
        shape = (self.depth - 1, self.width)
        rows = [factor.reshape(self.width) for factor in factors[1:]]
        empty = jnp.zeros(shape, factors[0].dtype)
        return {
            "v1": factors[0].reshape(self.d),
            "u": jnp.stack(rows[0::2]) if rows else empty,
            "v": jnp.stack(rows[1::2]) if rows else empty,
        }
