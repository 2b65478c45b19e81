"""Is there a linear predictor that gives every sample a positive margin? With the proof."""

from typing import NamedTuple

import numpy as np

from ..numerics.constants import sealed
from ..numerics.hard_margin import separation

NOTHING = 1e-11  # of unit rows: a smaller margin is rounding
PART = 1e-8  # of the largest weight: smaller ones are rounding
PROVED = 1e-13  # of unit rows: a smaller bound on the margin is zero up to rounding


class Separability(NamedTuple):
    """What a linear program says, and what proves it.

    Attributes:
        separable: is there a predictor with only positive margins?
        gamma: the largest smallest margin in the box |θ_j| ≤ 1, of samples divided by their norm;
            zero if the data are not separable.
        direction: the predictor that has it, (d,) or (dK,); its margins are the proof.
        samples: those that make it impossible; empty if the data are separable.
        weights: (rows,) of the constraints, of sum one: their weighted sum of unit rows is zero if
            the data are not separable, which is the proof that no predictor helps all of them.
        bound: ‖Σ weights·unit rows‖₁, above which no margin in the box can be. Data with no margin
            above 1e-11 count as not separable; where this is above rounding, they may be.
    """

    separable: bool
    gamma: float
    direction: np.ndarray
    samples: np.ndarray
    weights: np.ndarray
    bound: float

    @property
    def sentence(self) -> str:
        """The same in words."""
        if self.separable:
            return "The data are linearly separable."
        shown = ", ".join(map(str, self.samples[:8]))
        more = f" and {len(self.samples) - 8} more" if len(self.samples) > 8 else ""
        which = "sample" if len(self.samples) == 1 else "samples"
        if self.bound > PROVED:
            return (
                f"The data count as not separable: no predictor of entries up to 1 gives {which} "
                f"{shown}{more} margins above {self.bound:.0e} of their size, and a linear program "
                "cannot tell that from none."
            )
        return (
            f"The data are not linearly separable: no predictor gives {which} {shown}{more} "
            f"positive margin{'' if len(self.samples) == 1 else 's, all at once'}."
        )


def find_separability(Z: np.ndarray, n: int) -> Separability:
    """The answer for constraints Z, of which each of n samples has equally many."""
    sizes = np.abs(Z).max(axis=1, keepdims=True)
    unit = Z / np.where(sizes == 0, 1.0, sizes)
    lengths = np.linalg.norm(unit, axis=1, keepdims=True)
    unit = unit / np.where(lengths == 0, 1.0, lengths)
    found = separation(unit)
    gamma = float((unit @ found.w).min())
    bound = float(np.abs(unit.T @ found.p).sum())
    if gamma > NOTHING:
        none = np.zeros(0, np.int64)
        return sealed(Separability(True, gamma, found.w, none, found.p, bound))
    taking_part = np.flatnonzero(found.p > PART * found.p.max())
    samples = np.unique(taking_part // (len(Z) // n))
    return sealed(Separability(False, 0.0, found.w, samples, found.p, bound))
