"""Which charge of a symmetry the steepest flow of a geometry keeps."""

from typing import NamedTuple

import numpy as np

from .._generators.mixing import Pair
from ..geometry import L2, GeometryLike, Product, Spectral, as_geometry
from ..nets import Net


class Kept(NamedTuple):
    """A charge that steepest flow conserves: `gb.observe.charges(power=…, of=…)` measures it.

    Attributes:
        power: q of |θ|^q, or of the singular values.
        of: "entries", or "singular_values".
        aligned: only if the layers' singular vectors are those of the gradient?
    """

    power: float
    of: str
    aligned: bool = False


def kept(net: Net, geometry: GeometryLike) -> dict[str, Kept | None]:
    """What steepest flow in a geometry conserves of each symmetry of a net; None for nothing.

    Gradient flow keeps every charge. Flow in ℓp keeps Σ|θ_+|^q − Σ|θ_−|^q, 1/p + 1/q = 1, of
    symmetries with one parameter on each side; sign descent is q = 1. Spectral flow, layer by
    layer, keeps √(W1ᵀW1) − √(W2W2ᵀ) of layers that are aligned.

    Args:
        net: one that lists symmetries and knows its shapes.
        geometry: one of `gb.geometry`.
    """
    geometry = as_geometry("geometry", geometry)
    shapes = net.shapes()
    if shapes is None or not net.symmetries():
        raise ValueError(
            f"net must list symmetries and shapes, as nets of gradbias do, got {net!r:.80}"
        )
    params = {name: np.zeros(shape) for name, shape in shapes.items()}
    found: dict[str, Kept | None] = {}
    for name, symmetry in net.symmetries().items():
        power = geometry.charge_power
        if isinstance(geometry, L2):
            found[name] = Kept(2.0, "entries")
        elif isinstance(geometry, Product) and isinstance(geometry.geometries, Spectral):
            found[name] = Kept(1.0, "singular_values", True) if _seam(symmetry) else None
        elif power is not None and symmetry.entries(params) == (1, 1):
            found[name] = Kept(power, "entries")
        else:
            found[name] = None
    return found


def _seam(symmetry: object) -> bool:
    if not isinstance(symmetry, Pair) or symmetry.B is not None:
        return False
    return len(symmetry.left) == len(symmetry.right) == 1
