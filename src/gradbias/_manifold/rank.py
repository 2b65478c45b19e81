"""How many directions are normal to the manifold: a rank, and how clear it is."""

import warnings
from typing import NamedTuple

import numpy as np

from ..numerics import checks
from ..numerics.linalg import rank_threshold

CLEAR = 100.0  # the least ratio between the last value that counts and the first that does not


class Rank(NamedTuple):
    """A rank with its evidence.

    Attributes:
        rank: how many values count.
        gap: the last value that counts over the first that does not, or over rounding.
    """

    rank: int
    gap: float

    @property
    def clear(self) -> bool:
        """Is there a spectral gap?"""
        return self.gap >= CLEAR


def decide(values: np.ndarray, shape: tuple[int, ...], rank: int | None, rtol: float) -> Rank:
    """The rank of a matrix from its singular values (or eigenvalues), the largest first.

    Args:
        values: (m,), in descending order.
        shape: of the matrix, for the size of rounding.
        rank: the user's own; by `rtol` if None.
        rtol: what counts, relative to the largest.
    """
    sizes = np.abs(values)
    floor = rank_threshold(sizes, shape)
    if rank is None:
        rank = int(np.sum(values > max(rtol * sizes.max(initial=0.0), floor)))
    else:
        rank = checks.integer("rank", rank)
        if rank > len(values) or np.any(values[:rank] <= floor):
            there = int(np.sum(values > floor))
            raise ValueError(
                f"rank must be at most {there}, the number of directions in which the loss curves "
                f"up here, got {rank}"
            )
    rest = max(float(sizes[rank:].max(initial=0.0)), floor)
    if rank == 0:
        return Rank(0, np.inf if rest == 0 else 1 / max(rtol, np.finfo(float).eps))
    return Rank(rank, float(values[rank - 1]) / rest)


def warn_if_unclear(found: Rank, values: np.ndarray, what: str, stacklevel: int = 4) -> None:
    """Say so when the rank is a matter of taste."""
    if found.clear:
        return
    lowest = values[max(found.rank - 2, 0) : found.rank + 2]
    listed = ", ".join(f"{v:.1e}" for v in lowest)
    warnings.warn(
        f"x: no spectral gap, the rank of {what} is not clear: {found.rank} directions are "
        f"counted as normal, and around there its {len(values)} values are {listed}. Probable "
        "causes: (1) x is at or near a point where the manifold of minimisers is not smooth, "
        "(2) data that are nearly dependent; set rank= if you know it.",
        stacklevel=stacklevel,
    )
