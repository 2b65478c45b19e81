"""Each tensor in its own geometry: what per-layer optimisers are."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx

from ..numerics import checks
from ..numerics.types import Number, PyTree
from .base import Geometry, GeometryLike, as_geometry, module_of


class Product(Geometry):
    """max over tensors of ‖x_i‖_i / scale_i: steepest tensor by tensor, in steps of scale_i.

    The dual norm is Σ scale_i·‖g_i‖_{i*}. Per-layer Muon is `Product(Spectral)`.

    Args:
        geometries: one for all tensors, or one for each by name.
        scales: the size of a step of each tensor, by name; 1 where it is not given.
    """

    geometries: Any = eqx.field(static=True)
    scales: Any = eqx.field(static=True)

    def __init__(
        self,
        geometries: GeometryLike | Mapping[str, GeometryLike],
        scales: Mapping[str, float] | None = None,
    ):
        if isinstance(geometries, Mapping):
            each = [(n, as_geometry(f"geometries[{n!r}]", g)) for n, g in geometries.items()]
            if not each:
                raise ValueError("geometries must name at least one tensor, got none")
            self.geometries = tuple(each)
        else:
            self.geometries = as_geometry("geometries", geometries)
        given = {} if scales is None else dict(scales)
        self.scales = tuple(
            (name, checks.number(f"scales[{name!r}]", scale, above=0))
            for name, scale in given.items()
        )

    @property
    def rotates(self) -> bool:
        one = isinstance(self.geometries, Geometry)
        each = [self.geometries] if one else [geometry for _, geometry in self.geometries]
        return all(geometry.rotates for geometry in each)

    def norm(self, x: PyTree) -> Number:
        parts = [geometry.norm(x[n]) / scale for n, geometry, scale in self._each(x)]
        xp = module_of(parts[0])
        return xp.max(xp.stack(parts))

    def dual_norm(self, g: PyTree) -> Number:
        return sum(scale * geometry.dual_norm(g[n]) for n, geometry, scale in self._each(g))

    def steepest(self, g: PyTree) -> PyTree:
        return {n: scale * geometry.steepest(g[n]) for n, geometry, scale in self._each(g)}

    def _each(self, x: PyTree) -> list[tuple[str, Geometry, float]]:
        """(name, geometry, scale) of every tensor of x."""
        if not isinstance(x, dict) or not x:
            raise ValueError(f"gb.geometry.Product is a norm of parameters by name, got {x!r:.80}")
        one = isinstance(self.geometries, Geometry)
        geometries = dict.fromkeys(x, self.geometries) if one else dict(self.geometries)
        scales = dict(self.scales)
        unknown = sorted({*geometries, *scales} - set(x)) + sorted(set(x) - set(geometries))
        if unknown:
            raise ValueError(
                f"gb.geometry.Product must know the tensors {sorted(x)}, and no others; "
                f"it differs in {unknown}"
            )
        return [(n, geometries[n], scales.get(n, 1.0)) for n in x]
