"""Diagonal linear nets."""

import equinox as eqx

from .._generators.mixing import hyperbolic
from .._generators.symmetry import Symmetry
from ..numerics import checks
from ..numerics.types import Array, PyTree
from .base import LinearNet, Shapes


class Diagonal(LinearNet):
    """Θ = u² − v², coordinate by coordinate; u and v may start differently.

    Args:
        d: inputs.
    """

    d: int = eqx.field(static=True)

    def __init__(self, d: int):
        self.d = checks.integer("d", d, at_least=1)

    def shapes(self) -> Shapes:
        return {"u": (self.d,), "v": (self.d,)}

    def symmetries(self) -> dict[str, Symmetry]:
        return {"u-v": hyperbolic("u", "v")}

    def predictor(self, params: PyTree) -> Array:
        u = params["u"]
        v = params["v"]
        return u * u - v * v
