"""Norms of the entries: ℓ1, ℓ2, ℓ∞ and ℓp. Several arrays count as one long vector."""

from types import ModuleType

import equinox as eqx

from ..numerics import checks
from ..numerics.types import Array, Number, PyTree
from .base import Geometry, flat, module_of, shaped


class L1(Geometry):
    """Σ|x_j|; steepest is one coordinate, the first of the largest: coordinate descent."""

    def norm(self, x: PyTree) -> Number:
        return _sum(x, 1.0)

    def dual_norm(self, g: PyTree) -> Number:
        return _largest(flat(g)[0])

    def steepest(self, g: PyTree) -> PyTree:
        leaves, structure = flat(g)
        xp = module_of(leaves[0])
        largest = _largest(leaves)
        taken = largest == 0  # then no coordinate is taken at all
        steps = []
        for leaf in leaves:
            row = xp.ravel(leaf)
            j = xp.argmax(xp.abs(row)) if row.size else 0
            here = ~taken & (xp.arange(row.size) == j) & ((xp.abs(row) == largest) | xp.isnan(row))
            taken = taken | xp.any(here)
            steps.append(xp.where(here, xp.sign(row), 0.0).reshape(leaf.shape))
        return shaped(steps, structure)


class L2(Geometry):
    """√Σx_j²; steepest is the normalised gradient: gradient descent."""

    @property
    def rotates(self) -> bool:
        return True

    @property
    def charge_power(self) -> float:
        return 2.0

    def norm(self, x: PyTree) -> Number:
        return _sum(x, 2.0)

    def dual_norm(self, g: PyTree) -> Number:
        return _sum(g, 2.0)

    def steepest(self, g: PyTree) -> PyTree:
        return _steepest(g, 2.0)


class Linf(Geometry):
    """max|x_j|; steepest are the signs: sign descent, and Adam without memory."""

    @property
    def charge_power(self) -> float:
        return 1.0

    def norm(self, x: PyTree) -> Number:
        return _largest(flat(x)[0])

    def dual_norm(self, g: PyTree) -> Number:
        return _sum(g, 1.0)

    def steepest(self, g: PyTree) -> PyTree:
        leaves, structure = flat(g)
        return shaped([module_of(leaf).sign(leaf) for leaf in leaves], structure)


class Lp(Geometry):
    """(Σ|x_j|^p)^(1/p); steepest is sign(g)·(|g|/‖g‖_q)^(q − 1) with 1/p + 1/q = 1.

    Args:
        p: above 1 and finite; the ends are `L1` and `Linf`.
    """

    p: float = eqx.field(static=True)

    def __init__(self, p: float):
        self.p = checks.number("p", p, above=1)

    @property
    def charge_power(self) -> float:
        return self.p / (self.p - 1)

    def norm(self, x: PyTree) -> Number:
        return _sum(x, self.p)

    def dual_norm(self, g: PyTree) -> Number:
        return _sum(g, self.charge_power)

    def steepest(self, g: PyTree) -> PyTree:
        return _steepest(g, self.charge_power)


def _largest(leaves: list[Array]) -> Array:
    xp = module_of(leaves[0])
    return xp.max(xp.stack([xp.max(xp.abs(leaf), initial=0.0) for leaf in leaves]))


def _unit(x: PyTree) -> tuple[list[Array], PyTree, Array, ModuleType]:
    """The arrays over their largest entry, that entry, and NumPy or jax: no power overflows."""
    leaves, structure = flat(x)
    xp = module_of(leaves[0])
    largest = _largest(leaves)
    unit = xp.where(largest == 0, 1.0, largest)
    return [leaf / unit for leaf in leaves], structure, largest, xp


def _power_sum(leaves: list[Array], p: float, xp: ModuleType) -> Array:
    """(Σ|x_j|^p)^(1/p) of numbers of order one."""
    return sum(xp.sum(xp.abs(leaf) ** p) for leaf in leaves) ** (1 / p)


def _sum(x: PyTree, p: float) -> Array:
    leaves, _, largest, xp = _unit(x)
    return largest * _power_sum(leaves, p, xp)


def _steepest(g: PyTree, q: float) -> PyTree:
    leaves, structure, _, xp = _unit(g)
    total = _power_sum(leaves, q, xp)
    total = xp.where(total == 0, 1.0, total)
    return shaped([xp.sign(leaf) * (xp.abs(leaf) / total) ** (q - 1) for leaf in leaves], structure)
