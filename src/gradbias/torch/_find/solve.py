"""Which exponents are free: equalities first, then elimination of the few relations left."""

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from .ledger import ANY, Ledger

Combination = dict[int, float]  # free class -> coefficient


class Solved:
    """Every exponent as a combination of free ones.

    A class is named by its earliest member, so that what comes first in the network is free and
    what follows from it is not.
    """

    def __init__(self, ledger: Ledger):
        self.of = _classes(ledger)
        self.out, self.into, tangled = _definitions(ledger)
        self.pivots: dict[int, Combination] = {int(self.of[0]): {}}
        for rows, coefficients in [*ledger.rows, (tangled, (1.0, -1.0, 1.0))]:
            for row in np.unique(self.of[rows], axis=0).tolist():
                self._eliminate(row, coefficients)

    def _eliminate(self, row: list[int], coefficients: tuple[float, ...]) -> None:
        relation: Combination = {}
        for variable, c in zip(row, coefficients, strict=True):
            _add(relation, self._reduced(variable), c)
        if not relation:
            return
        pivot = max(relation)
        lead = relation.pop(pivot)
        self.pivots[pivot] = {variable: -c / lead for variable, c in relation.items()}

    def _reduced(self, variable: int) -> Combination:
        if variable not in self.pivots:
            return {variable: 1.0}
        total: Combination = {}
        for other, c in self.pivots[variable].items():
            _add(total, self._reduced(other), c)
        self.pivots[variable] = total  # shorter ways next time
        return total

    def combination(self, number: int) -> Combination:
        """The exponent with this number (of a tensor's entry) in free ones; empty for zero."""
        if number == ANY:
            return {}
        return self._reduced(int(self.of[number]))


def _definitions(ledger: Ledger) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries of weights that are only weights: their exponents are out − into.

    Returns:
        For every number `out` and `into`, ANY where it is no such entry; and, in rows, those of
        entries that other conditions touch too.
    """
    out, into = np.full((2, ledger.count), ANY)
    if not ledger.defined:
        return out, into, np.zeros((0, 3), dtype=np.int64)
    rows = np.concatenate([np.stack([t.numpy() for t in d], axis=1) for d in ledger.defined])
    touched = np.bincount(rows[:, 0], minlength=ledger.count) > 1
    for others in (*ledger.equal, *(related for related, _ in ledger.rows)):
        touched[others.reshape(-1)] = True
    clean = ~touched[rows[:, 0]]
    out[rows[clean, 0]] = rows[clean, 1]
    into[rows[clean, 0]] = rows[clean, 2]
    return out, into, rows[~clean]


def _add(total: Combination, more: Combination, factor: float) -> None:
    for variable, c in more.items():
        value = total.get(variable, 0.0) + factor * c
        if abs(value) > 1e-12:
            total[variable] = value
        else:
            total.pop(variable, None)


def _classes(ledger: Ledger) -> np.ndarray:
    """For every number the smallest one that is equal to it."""
    edges = np.concatenate([np.zeros((2, 0), dtype=np.int64), *ledger.equal], axis=1)
    graph = scipy.sparse.coo_array(
        (np.ones(edges.shape[1], dtype=np.int32), (edges[0], edges[1])),
        shape=(ledger.count, ledger.count),
    )
    _, labels = scipy.sparse.csgraph.connected_components(graph, directed=False)
    first = np.full(labels.max() + 1, ledger.count)
    np.minimum.at(first, labels, np.arange(ledger.count))
    return first[labels]
