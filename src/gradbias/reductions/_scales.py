"""Layers and data whose rows or columns differ in scale by many digits.

A change of basis adds rows up, and rounds what is small to the digits of what is large. The run
in full does not: an input or a hidden unit of 1e-20 beside others of order one keeps all its
digits, and training may make it grow. So where scales differ, a closure must show that its bases
do not mix them, or that what is small brings no direction of its own.
"""

from collections.abc import Sequence

import numpy as np

from ..numerics.memo import latest
from ..problems import Population
from ..problems.base import FiniteData
from ._closure import SPREAD, images, small
from ._row_space import Spanned

RANGE = 1e-290  # entries further apart than this cannot be written in one unit
EXACT = 1e-10  # what a reduced run promises


def writable(factor: np.ndarray, largest: float) -> bool:
    """Can all entries of a factor be written in units of the largest?"""
    if largest <= 1:
        return True
    sizes = np.abs(factor)
    if sizes.min(initial=largest) >= RANGE * largest:
        return True
    return bool(sizes.min(initial=largest, where=sizes > 0) >= RANGE * largest)


def mixed_inputs(problem: Spanned, basis: np.ndarray, scale: np.ndarray) -> str | None:
    """A sentence if a basis of the row space mixes inputs that the data do not; else None.

    Args:
        problem: the data.
        basis: of their row space.
        scale: of each row of the first factor.
    """
    size = np.abs(basis)
    taken = size @ (size.T @ scale)
    if np.any(taken * SPREAD > np.maximum(scale, _coupled(problem, scale))):
        return "the basis of the row space mixes inputs of very different scale"
    return None


def mixed_units(units: Sequence[np.ndarray], bases: list[np.ndarray | None]) -> str | None:
    """A sentence if a basis mixes hidden units of which a small one may grow; else None."""
    for k in range(1, len(units)):
        if bases[k] is None:
            continue
        if _carries_its_own(np.concatenate(images(units, bases, k), axis=1)):
            return f"hidden units of very different scale: a small one in layer {k} may grow"
    return None


@latest
def left_out(problem: Spanned) -> str | None:
    """A sentence if the basis of the row space misses data that are small, not rounding."""
    if isinstance(problem, FiniteData):
        U, s, Vt = problem.svd
        missed = np.abs(problem.X - (U * s) @ Vt)
        size = np.abs(problem.X)
        by_row = size.max(axis=1, initial=0.0), missed.max(axis=1, initial=0.0)
        by_column = size.max(axis=0, initial=0.0), missed.max(axis=0, initial=0.0)
    elif isinstance(problem, Population):
        basis = problem.row_space
        deviation = np.sqrt(np.diag(problem.sigma_x))
        missed = np.abs(problem.sigma_x - basis @ (basis.T @ problem.sigma_x))
        missed = missed / np.where(deviation == 0, 1.0, deviation)
        by_row = by_column = deviation, missed.max(axis=1, initial=0.0)
    else:
        return None
    for what, (size, missed) in (("input", by_column), ("sample", by_row)):
        wrong = np.flatnonzero(missed > EXACT * size)
        if wrong.size:
            i = int(wrong[0])
            ratio = size[i] / size.max()
            return f"{what} {i} is {ratio:.1e} of the largest: the row space does not show it"
    return None


def _carries_its_own(columns: np.ndarray) -> bool:
    """Does a small row bring a direction that the large ones do not show clearly?

    A row times the right singular vectors of what is not clear: this has the digits of the row,
    however small it is.
    """
    minor = small(np.abs(columns).max(axis=1, initial=0.0))
    if not minor.any():
        return False
    triangle = np.linalg.qr(columns)[1]
    s, Vt = np.linalg.svd(triangle)[1:]
    unclear = Vt[int(np.sum(s > SPREAD * s[0])) :].T
    rows = columns[minor]
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)
    return bool(np.any(np.abs(rows @ unclear) > EXACT))


def _coupled(problem: Spanned, scale: np.ndarray) -> np.ndarray:
    """What each input takes over from others in one step, through the covariance of the data."""
    if isinstance(problem, Population):
        second = np.abs(problem.sigma_x)
        return second @ scale / (second.max(initial=0.0) or 1.0)
    X = np.abs(problem.X) / (np.abs(problem.X).max(initial=0.0) or 1.0)  # pyright: ignore[reportAttributeAccessIssue]
    return X.T @ (X @ scale)
