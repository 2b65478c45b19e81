"""A basis of a subspace with few entries in each vector, by linear programmes."""

import numpy as np
import scipy.linalg
import scipy.optimize

ZERO = 1e-7  # entries below, relative to the largest, are rounding of the subspace
SAME = 1e-9  # coordinates whose rows in the basis are this parallel move together


def sparse_basis(space: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """Vectors that span the rows of `space` (beyond `start`), the sparsest first.

    For each coordinate the vector of least Σ|entries| among those that are 1 there is a
    candidate; independent candidates are taken by their number of entries.

    Args:
        space: (r, D) orthonormal rows.
        start: (s, D) vectors inside it that are known already and left out of the result.

    Returns:
        (r − s, D), the largest entry of each is 1.
    """
    known = [] if start is None else list(start)
    need = len(space) - len(known)
    if need <= 0:
        return np.zeros((0, space.shape[1]))
    chosen: list[np.ndarray] = []
    for vector in sorted(_candidates(space), key=_entries):
        if len(chosen) < need and _independent([*known, *chosen, vector]):
            chosen.append(vector)
    return np.array([v / v[np.argmax(np.abs(v))] for v in _completed(space, known, chosen, need)])


def _entries(vector: np.ndarray) -> tuple[int, float]:
    return int(np.sum(vector != 0)), float(np.abs(vector).sum())


def _candidates(space: np.ndarray) -> list[np.ndarray]:
    groups = _groups(space)
    rows = np.array([space[:, g[0]] for g in groups])
    # A coordinate that is c times another has |c| times its entry.
    ratios = np.array([_sizes(space, g) for g in groups])
    found = []
    for j in range(len(groups)):
        mixed = _lightest(rows, ratios, j)
        if mixed is not None:
            vector = mixed @ space
            vector[np.abs(vector) < ZERO * np.abs(vector).max()] = 0.0
            found.append(vector)
    return found


def _lightest(rows: np.ndarray, weights: np.ndarray, j: int) -> np.ndarray | None:
    """The c of least Σ weights·|rows c| with (rows c)_j = 1."""
    groups, r = rows.shape
    cost = np.concatenate([np.zeros(r), weights])
    eye = np.eye(groups)
    upper = np.block([[rows, -eye], [-rows, -eye]])
    equal = np.concatenate([rows[j], np.zeros(groups)])[None, :]
    bounds = [(None, None)] * r + [(0, None)] * groups
    result = scipy.optimize.linprog(
        cost, upper, np.zeros(2 * groups), equal, [1.0], bounds, method="highs"
    )
    return result.x[:r] if result.success else None


def _groups(space: np.ndarray) -> list[np.ndarray]:
    """Coordinates that move in proportion, in groups; those that never move are left out."""
    lengths = np.linalg.norm(space, axis=0)
    there = np.flatnonzero(lengths > SAME * lengths.max(initial=0.0) + 1e-300)
    units = space[:, there] / lengths[there]
    left = np.ones(len(there), dtype=bool)
    groups = []
    for i in range(len(there)):
        if left[i]:
            # 1 − |cosine| is of second order: compare the vectors themselves.
            sign = np.where(units.T @ units[:, i] < 0, -1.0, 1.0)
            together = left & (np.abs(units * sign - units[:, [i]]).max(axis=0) < 1e-6)
            groups.append(there[together])
            left &= ~together
    return groups


def _sizes(space: np.ndarray, group: np.ndarray) -> float:
    lengths = np.linalg.norm(space[:, group], axis=0)
    return float(lengths.sum() / lengths[0])


def _independent(vectors: list[np.ndarray]) -> bool:
    units = np.array([v / np.linalg.norm(v) for v in vectors])
    return bool(scipy.linalg.svdvals(units)[-1] > 1e-6)


def _completed(
    space: np.ndarray, known: list[np.ndarray], chosen: list[np.ndarray], need: int
) -> list[np.ndarray]:
    """Rows of the space itself, where the candidates do not span it."""
    chosen = list(chosen)
    for row in space:
        if len(chosen) < need and _independent([*known, *chosen, row]):
            chosen.append(row)
    return chosen
