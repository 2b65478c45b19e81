"""How fast that can grow which a reduction leaves out.

A direction that is rounding in the parameters, 1e-16 of a layer, is left out of the invariant
subspaces. A run near a saddle may make it grow. Let ε stand for the blocks of the factors that
lead out of the subspaces or back into them. Each step is linear in them to first order,
ε ← (I − lr·M)ε, where M takes one block to another: the slope in the predictor times the other
factors, of which those between the two act outside. So ε grows by exp(∫‖M‖ dt) at most; where
steps see a noisy M, in mean square, and by half of lr·‖M − mean‖² more for each.

‖M‖ is added up at every step. Norms of large factors cost as much as many steps: they are measured
where a run is looked at. In between, a factor moves by no more than the slope times the norms of
the others, which bounds them all the way. Noise is a sample at every look, of which the larger of
two neighbours counts.

The same holds for errors inside the subspaces (a change of basis rounds, too), if "between" are
all factors: there a second term, from the curvature of the loss, only damps them.
"""

import functools
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import equinox as eqx
import numpy as np

from ..numerics.pytrees import Module
from ..numerics.types import Array

# Of the product of their sizes: a direction so small in a chain of layers is known to fewer digits
# than are promised, since its terms round at 2e-16.
NEAR_SADDLE = float(np.finfo(np.float64).eps) / 1e-10
NARROW = 10  # rows or columns of a factor up to which its norm is quick to compute
# of a stretch, and of the search for a bound on each
PARTS = 8
ROUNDS = 12


class Growth(Module):
    """How fast small errors of a reduced run can grow.

    Attributes:
        outside: of each factor, the norm of what acts outside of the subspaces.
        leads_out: of each space between two factors, 1 where something is left out, else 0.
        inside: 1 if errors inside the subspaces count as well, else 0.
        at_looks: are norms of factors measured only where a run is looked at, not at every step?
    """

    outside: Any
    leads_out: Any
    inside: Any
    at_looks: bool = eqx.field(static=True)

    def others(self, sizes: Sequence[Any], xp: ModuleType = np) -> Array:
        """The largest row sum of M over the slope: products of all factors but two.

        Args:
            sizes: the norms of the factors.
            xp: numpy, or jax.numpy inside of compiled code.
        """
        count = len(sizes)
        one = xp.ones_like(sizes[0])
        zero = xp.zeros_like(sizes[0])
        if count == 1:
            return zero
        if count == 2:  # nothing but the slope itself
            return one * xp.maximum(self.leads_out[0], self.inside)
        between = [xp.maximum(self.outside[i], self.inside * sizes[i]) for i in range(count)]
        leads = [xp.maximum(self.leads_out[i], self.inside) for i in range(count - 1)]
        before = [one]
        after = [one]
        for i in range(count - 1):
            before.append(before[-1] * sizes[i])
            after.append(after[-1] * sizes[count - 1 - i])
        after.reverse()  # products of the factors before, and after, each of them
        # Pairs with a later factor, and with an earlier one, one after the other.
        later = [zero] * count
        earlier = [zero] * count
        for i in reversed(range(count - 1)):
            later[i] = leads[i] * (after[i + 1] + between[i + 1] * later[i + 1])
        for i in range(1, count):
            earlier[i] = leads[i - 1] * (before[i - 1] + between[i - 1] * earlier[i - 1])
        rows = [before[i] * later[i] + after[i] * earlier[i] for i in range(count)]
        return functools.reduce(xp.maximum, rows)


def largest_between(
    before: np.ndarray, after: np.ndarray, way: np.ndarray, shrink: bool
) -> np.ndarray:
    """Bounds on the norms of factors all along some stretches of a run.

    Each factor moves by the slope times the product of the others at most. So the norms stay below
    the solution of da_i/ds = Π a_j over j ≠ i, from either end to the middle.

    Args:
        before: at the starts of the stretches, (factors, stretches).
        after: at their ends.
        way: the slopes along each, times time.
        shrink: is there something else that makes factors smaller? Then the ends say nothing
            about what was before.
    """
    if shrink:
        return _grown_along(before, way)
    return np.maximum(_grown_along(before, way / 2), _grown_along(after, way / 2))


def _grown_along(sizes: np.ndarray, way: np.ndarray) -> np.ndarray:
    """An upper solution in some parts: b = a + h·Π b solves it from above; infinite without one."""
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(PARTS):
            start = before = sizes
            for _ in range(ROUNDS):
                sizes, before = start + way / PARTS * _products_of_others(1.001 * sizes), sizes
            closed = np.all(sizes <= 1.001 * before, axis=0) & np.all(np.isfinite(sizes), axis=0)
            sizes = np.where(closed, sizes, np.inf)
    return sizes


def _products_of_others(sizes: np.ndarray) -> np.ndarray:
    """Of each, the product of all others."""
    return np.stack([np.prod(np.delete(sizes, i, axis=0), axis=0) for i in range(len(sizes))])


def growth_of(
    outside: list[float], leads_out: list[bool], inside: bool, shapes: list[tuple[int, int]]
) -> Growth:
    """One object for all members whose norms are about equal.

    Args:
        outside: of each factor, the norm of what acts outside of the subspaces.
        leads_out: of each space between two factors: is something left out?
        inside: do errors inside the subspaces count as well?
        shapes: of the factors inside.
    """
    at_looks = len(shapes) > 2 and max(map(min, shapes)) > NARROW
    return _growth(tuple(map(_rounded_up, outside)), tuple(leads_out), inside, at_looks)


@functools.lru_cache(maxsize=64)
def _growth(
    outside: tuple[float, ...], leads_out: tuple[bool, ...], inside: bool, at_looks: bool
) -> Growth:
    leads = np.asarray(leads_out, float)
    counts = np.asarray(float(inside))
    return Growth(np.asarray(outside), leads, counts, at_looks)


def _rounded_up(value: float) -> float:
    """By a fifth at least, to four steps an octave; rounding to zero."""
    if value < 1e-12:
        return 0.0
    return 2.0 ** (math.ceil(4 * math.log2(1.2 * value)) / 4)


def near_saddle(
    factors: Sequence[np.ndarray], inside: Sequence[np.ndarray], bases: list[np.ndarray | None]
) -> bool:
    """Do exact zeros, or directions that are next to none, hold still what rounding would set free?

    What moves a factor is the slope between the products of the factors before and after it. A
    change of basis rounds them to the digits of their largest entries. Where each of their singular
    values keeps its own digits, errors stay as small as they are, next to what they are errors of.

    Not where every basis takes coordinates as they are: that rounds nothing.

    Args:
        factors: of the net.
        inside: the same inside the subspaces, each divided by the norm of its factor.
        bases: of the invariant subspaces.
    """
    if all(basis is None or np.count_nonzero(basis) == basis.shape[1] for basis in bases):
        return False
    if not all(factor.all() for factor in factors):
        return True
    return any(_loses_digits(chain[:-1]) for chain in (inside, [f.T for f in reversed(inside)]))


def _loses_digits(chain: Sequence[np.ndarray]) -> bool:
    """Is a singular value of some first factors' product too small to keep its digits?"""
    product: np.ndarray | None = None
    rank = math.inf
    for factor in chain:
        product = factor if product is None else product @ factor
        rank = min(rank, *factor.shape)
        if _squared_singular_value(product, int(rank)) < NEAR_SADDLE**2:
            return True
    return False


def _squared_singular_value(matrix: np.ndarray, rank: int) -> float:
    """The square of the last singular value that a matrix of this rank may have."""
    if rank == 1:
        return float(np.vdot(matrix, matrix))
    squares = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    return float(np.linalg.eigvalsh(squares)[-rank])
