"""The exact closure: a product of matrices moves inside small invariant subspaces.

The gradient of a loss of XΘ, Θ = F1 F2 … FN, in any factor is a product of the other factors and
of the data. So there are subspaces E0 (the row space of X), E1, …, EN (all outputs) with
Fkᵀ E(k−1) ⊂ Ek and Fk Ek ⊂ E(k−1), and every step of gradient flow, GD, SGD, label noise and
momentum changes Fk only by E(k−1) · Ekᵀ blocks. What is outside never moves, or shrinks by one
common scalar under weight decay.
"""

import functools
import math

import numpy as np

TOLERANCE = 1e-13  # on candidates divided by the norm of their factor; 1e-9 costs 1e-8 in results
FEW = 8  # columns whose SVD takes no longer than their QR
TALL = 4  # times as high as wide: there Householder's QR takes four times as long as Cholesky's
CLEAR = 1e-3  # of a unit: what shows so much of a direction shows it to all digits but three
APART = 1e-8  # the least squared singular value of columns that are clearly independent
CERTIFICATE = 1e-14  # the largest invariance residual that counts as closed


def invariant_bases(units: list[np.ndarray], first: np.ndarray) -> list[np.ndarray | None]:
    """Orthonormal bases of E0 … EN; None stands for the whole space.

    Args:
        units: F1 … FN, each divided by its norm.
        first: (d, r) basis of E0.
    """
    inner = range(1, len(units))
    bases: list[np.ndarray | None] = [first, *(_empty(F.shape[1]) for F in units[:-1]), None]
    made_from: dict[int, tuple[int, int]] = {}
    grows = True
    while grows:
        grows = False
        for k in (*inner, *reversed(inner)):
            basis, neighbours = bases[k], (_size(bases[k - 1]), _size(bases[k + 1]))
            if basis is None or made_from.get(k) == neighbours:
                continue
            made_from[k], grows = neighbours, True
            bases[k] = _extended(basis, np.concatenate(_images(units, bases, k), axis=1))
    return bases


def polished(units: list[np.ndarray], bases: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """The same subspaces, each made once more from its neighbours.

    A direction of which a factor shows only a small part is known with as much less accuracy, and
    hands its error on to the next. Made from all that is there by now, it is shown in full.
    """
    better, inner = list(bases), range(1, len(units))
    for k in (*inner, *reversed(inner)):
        size = _size(bases[k])
        if size > 0:
            columns = np.concatenate(_images(units, better, k), axis=1)
            better[k] = _left_singular(columns)[0][:, :size]
    return better


def invariance_residual(units: list[np.ndarray], bases: list[np.ndarray | None]) -> float:
    """The largest part, relative to its factor, that a factor maps out of the subspaces."""
    worst = 0.0
    for k in range(1, len(units)):
        basis = bases[k]
        if basis is None:
            continue
        for image in _images(units, bases, k):
            worst = max(worst, _norm(image - basis @ (basis.T @ image)))
    return worst


def unit(factor: np.ndarray) -> np.ndarray:
    """A factor divided by its spectral norm, to a few per cent; zero stays zero.

    Power iteration, because the norm only sets the scale of a threshold. Divided by the largest
    entry first: squares of an init of 1e-200 would underflow.
    """
    largest = np.abs(factor).max(initial=0.0)
    if largest == 0:
        return factor
    scaled = factor / largest
    if 1 in factor.shape:
        return scaled / np.linalg.norm(scaled)
    x = _direction(factor.shape[1])
    for _ in range(10):
        x = scaled.T @ (scaled @ (x / np.linalg.norm(x)))
    return scaled / np.sqrt(np.linalg.norm(x))


def _norm(matrix: np.ndarray) -> float:
    """The spectral norm."""
    squares = matrix.T @ matrix
    largest = squares[0, 0] if squares.size == 1 else np.linalg.eigvalsh(squares)[-1]
    return math.sqrt(max(largest, 0.0))


@functools.lru_cache(maxsize=64)
def _direction(size: int) -> np.ndarray:
    """Where power iteration starts."""
    return np.random.default_rng(0).normal(size=size)


def _images(
    units: list[np.ndarray], bases: list[np.ndarray | None], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """What the two neighbours of Ek are mapped to: both must lie in Ek."""
    return _times(units[k - 1].T, bases[k - 1]), _times(units[k], bases[k + 1])


def _extended(basis: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """An orthonormal basis of columns that span what `basis` does, or more.

    Most of them bring nothing new, which takes a product to see. What some of them bring is added
    where it is clear; else all is made anew, since a direction that is hardly seen is not known
    well, and another one of them may show it better.
    """
    if basis.shape[1] == 0:
        return _span(columns)
    rest = columns - basis @ (basis.T @ columns)
    rest = rest[:, np.linalg.norm(rest, axis=0) > TOLERANCE / math.sqrt(columns.shape[1])]
    if rest.shape[1] == 0:
        return basis
    added, sizes = _left_singular(rest)
    clear = int(np.sum(sizes > CLEAR))
    if np.any(sizes[clear:] > TOLERANCE):
        return _span(columns)
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
        return None if np.linalg.norm(columns) > TOLERANCE else _empty(height)
    if columns.shape[1] == 1:
        length = np.linalg.norm(columns)
        return columns / length if length > TOLERANCE else _empty(height)
    if columns.shape[1] > FEW and height >= TALL * columns.shape[1]:
        independent = _by_cholesky(columns)
        if independent is not None:
            return independent
    U, s = _left_singular(columns)
    kept = int(np.sum(s > TOLERANCE))
    return None if kept >= height else U[:, :kept]


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
