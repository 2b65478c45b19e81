"""The exact closure: a product of matrices moves inside small invariant subspaces.

The gradient of a loss of XΘ, Θ = F1 F2 … FN, in any factor is a product of the other factors and
of the data. So there are subspaces E0 (the row space of X), E1, …, EN (all outputs) with
Fkᵀ E(k−1) ⊂ Ek and Fk Ek ⊂ E(k−1), and every step of gradient flow, GD, SGD, label noise and
momentum changes Fk only by E(k−1) · Ekᵀ blocks. What is outside never moves, or shrinks by one
common scalar under weight decay.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ROUNDING = 8 * np.finfo(np.float64).eps  # times √columns; seen: an eighth of it
FEW = 8  # columns whose SVD takes no longer than their QR
TALL = 4  # times as high as wide: there Householder's QR takes four times as long as Cholesky's
CLEAR = 1e-3  # of a unit: what shows so much of a direction shows it to all digits but three
APART = 1e-8  # the least squared singular value of columns that are clearly independent
SPREAD = 1e-4  # scales this close lose four digits of sixteen when they are mixed
CERTIFICATE = 1e-14  # the largest invariance residual that counts as closed


def invariant_bases(
    units: Sequence[np.ndarray], first: np.ndarray, by_column: bool = False
) -> list[np.ndarray | None]:
    """Orthonormal bases of E0 … EN; None stands for the whole space.

    Args:
        units: F1 … FN, each divided by its norm.
        first: (d, r) basis of E0.
        by_column: a candidate counts by its own scale, not by that of its factor.
    """
    inner = range(1, len(units))
    bases: list[np.ndarray | None] = [first, *(_empty(F.shape[1]) for F in units[:-1]), None]
    made_from: dict[int, tuple[int, int]] = {}
    grows = True
    while grows:
        grows = False
        for k in (*inner, *reversed(inner)):
            basis = bases[k]
            neighbours = (_size(bases[k - 1]), _size(bases[k + 1]))
            if basis is None or made_from.get(k) == neighbours:
                continue
            made_from[k] = neighbours
            grows = True
            bases[k] = _extended(basis, np.concatenate(images(units, bases, k, by_column), axis=1))
    return bases


def polished(
    units: Sequence[np.ndarray], bases: list[np.ndarray | None], by_column: bool = False
) -> list[np.ndarray | None]:
    """The same subspaces, each made once more from its neighbours.

    A direction of which a factor shows only a small part is known with as much less accuracy, and
    hands its error on to the next. Made from all that is there by now, it is shown in full.
    """
    better = list(bases)
    inner = range(1, len(units))
    for k in (*inner, *reversed(inner)):
        size = _size(bases[k])
        if size > 0:
            columns = np.concatenate(images(units, better, k, by_column), axis=1)
            better[k] = _left_singular(columns)[0][:, :size]
    return better


class ClosureCheck(NamedTuple):
    """How well subspaces close.

    Attributes:
        residual: the largest part that is mapped out of them, relative to its factor or column.
        even: is no candidate, and no row of them, far smaller than another one, unless zero?
        leaves_out: of each space between two factors: was a candidate taken for a sum of others,
            up to rounding?
    """

    residual: float
    even: bool
    leaves_out: list[bool]


def closed(
    units: Sequence[np.ndarray], bases: list[np.ndarray | None], by_column: bool = False
) -> ClosureCheck:
    """How well these subspaces close."""
    worst = 0.0
    even = True
    leaves_out = [False] * (len(units) - 1)
    for k in range(1, len(units)):
        basis = bases[k]
        if basis is None:
            continue
        both = images(units, bases, k, by_column)
        for image in both:
            worst = max(worst, _norm(image - basis @ (basis.T @ image)))
        sizes = np.abs(np.concatenate(both, axis=1))
        least = sizes.min(initial=np.inf)
        even = even and _is_even(sizes, least)
        leaves_out[k - 1] = _leaves_out(sizes, least, basis.shape[1])
    return ClosureCheck(worst, even, leaves_out)


def _leaves_out(sizes: np.ndarray, least: float, rank: int) -> bool:
    """Are there more candidates than directions, where more rows than these are not zero?"""
    if rank == sizes.shape[1]:
        return False
    if least > 0:
        return rank < min(sizes.shape)
    return bool(rank < min(np.count_nonzero(sizes.any(axis=axis)) for axis in (0, 1)))


def _is_even(sizes: np.ndarray, least: float) -> bool:
    """Is no row and no column far smaller than another one, unless it is zero?"""
    if least >= SPREAD * sizes.max(initial=0.0):
        return True
    return not any(small(sizes.max(axis=axis, initial=0.0)).any() for axis in (0, 1))


def small(scale: np.ndarray) -> np.ndarray:
    """Which of these are far smaller than the largest, but not zero?"""
    least = SPREAD * scale.max(initial=0.0)
    return (scale < least) & (scale > 0)


def unit(factor: np.ndarray, largest: float) -> tuple[np.ndarray, float]:
    """A factor divided by its spectral norm, and that, to a few per cent; zero stays zero."""
    if largest == 0:
        return factor, 0.0
    scaled = factor / largest  # squares of an init of 1e-200 would underflow
    length = _about_norm(scaled)
    return scaled / length, largest * length


def about_norm(matrix: np.ndarray) -> float:
    """The spectral norm, to a few per cent."""
    largest = float(np.abs(matrix).max(initial=0.0))
    return largest and largest * _about_norm(matrix / largest)


def _about_norm(scaled: np.ndarray) -> float:
    """Power iteration, because the norm only sets the scale of a threshold."""
    if 1 in scaled.shape:
        return math.sqrt(np.vdot(scaled, scaled))
    x = _direction(scaled.shape[1])
    for _ in range(10):
        x = scaled.T @ (scaled @ (x / np.linalg.norm(x)))
    return math.sqrt(np.linalg.norm(x))


def _norm(matrix: np.ndarray) -> float:
    """The spectral norm."""
    if matrix.size == 0:
        return 0.0
    squares = matrix.T @ matrix
    largest = squares[0, 0] if squares.size == 1 else np.linalg.eigvalsh(squares)[-1]
    return math.sqrt(max(largest, 0.0))


@functools.lru_cache(maxsize=64)
def _direction(size: int) -> np.ndarray:
    """Where power iteration starts."""
    return np.random.default_rng(0).normal(size=size)


def images(
    units: Sequence[np.ndarray], bases: list[np.ndarray | None], k: int, by_column: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """What the two neighbours of Ek are mapped to: both must lie in Ek."""
    times = _own_scale if by_column else _times
    return times(units[k - 1].T, bases[k - 1]), times(units[k], bases[k + 1])


def _own_scale(factor: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    """The image of a basis, each column over the terms that it is the sum of.

    Of that size is its rounding: a column that is tiny because its terms are is as well known as
    any other, one that is tiny because they cancel is not.
    """
    terms = np.abs(factor) if basis is None else np.abs(factor) @ np.abs(basis)
    largest = terms.max(axis=0, initial=0.0)
    return _times(factor, basis) / np.where(largest == 0, 1.0, largest)


def _extended(basis: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """An orthonormal basis of columns that span what `basis` does, or more.

    Most of them bring nothing new, which takes a product to see. What some of them bring is added
    where it is clear; else all is made anew, since a direction that is hardly seen is not known
    well, and another one of them may show it better.
    """
    if basis.shape[1] == 0:
        return _span(columns)
    rest = columns - basis @ (basis.T @ columns)
    rest = rest[:, np.linalg.norm(rest, axis=0) > ROUNDING]
    if rest.shape[1] == 0:
        return basis
    added, sizes = _left_singular(rest)
    clear = int(np.sum(sizes > CLEAR))
    if np.any(sizes[clear:] > _rounding(columns)):
        return _span(columns)
    if clear == 0:
        return basis
    if basis.shape[1] + clear >= len(basis):
        return None
    added = added[:, :clear]
    return np.concatenate([basis, np.linalg.qr(added - basis @ (basis.T @ added))[0]], axis=1)


def _span(columns: np.ndarray) -> np.ndarray | None:
    """An orthonormal basis of the columns; None if they span everything.

    QR first, then the SVD of the small triangle: ten times faster for wide layers. Columns that
    are far from dependent, as those of random layers are, need neither.
    """
    height = len(columns)
    if columns.shape[1] == 0:
        return _empty(height)
    if height == 1:  # as between the factors of a rank-1 net
        return None if np.linalg.norm(columns) > _rounding(columns) else _empty(height)
    if columns.shape[1] == 1:
        length = np.linalg.norm(columns)
        return columns / length if length > ROUNDING else _empty(height)
    if columns.shape[1] > FEW and height >= TALL * columns.shape[1]:
        independent = _by_cholesky(columns)
        if independent is not None:
            return independent
    U, s = _left_singular(columns)
    kept = int(np.sum(s > _rounding(columns)))
    return None if kept >= height else U[:, :kept]


def _rounding(columns: np.ndarray) -> float:
    """A direction of which columns show no more than this is rounding."""
    return ROUNDING * math.sqrt(columns.shape[1])


def _left_singular(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left singular vectors, and singular values."""
    if columns.shape[1] <= FEW:
        return np.linalg.svd(columns, full_matrices=False)[:2]
    Q, R = np.linalg.qr(columns)
    U, s, _ = np.linalg.svd(R, full_matrices=False)
    return Q @ U, s


def _by_cholesky(columns: np.ndarray) -> np.ndarray | None:
    """An orthonormal basis of independent columns; None if they are not clearly so.

    Once through the triangle of their products loses twice the digits that their condition costs;
    the second time they are as good as orthonormal, and nothing is lost.
    """
    squares = columns.T @ columns
    least, *_, most = np.linalg.eigvalsh(squares)
    if not least > APART * max(most, 1.0):
        return None
    once = _divided(columns, squares)
    return _divided(once, once.T @ once)


def _divided(columns: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Columns over the triangle of their products."""
    triangle = np.linalg.cholesky(squares)
    return columns @ np.linalg.inv(triangle).T


def _times(factor: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    return factor if basis is None else factor @ basis


def _size(basis: np.ndarray | None) -> int:
    return -1 if basis is None else basis.shape[1]


def _empty(height: int) -> np.ndarray:
    return np.zeros((height, 0))
