"""Any diagonal generator: what `detect` finds and no rescaling can say."""

from typing import Any

import jax
import numpy as np

from .._generators.named_entries import copy, module, number
from .._generators.symmetry import Neurons, Rescaling, Symmetry
from ..numerics import checks
from ..numerics.types import Number, PyTree


class Weighted(Symmetry):
    """A is diagonal, with an own number for every parameter; see `weighted`."""

    mu: Any

    def form(self, x: PyTree, y: PyTree) -> Number:
        products = jax.tree.map(lambda m, a, b: (m * a * b).sum(), self._like(x), x, y)
        return sum(jax.tree.leaves(products))

    def apply(self, params: PyTree, weights: Number = 1.0) -> PyTree:
        w = number("weights", weights)
        return jax.tree.map(lambda m, p: w * m * p, self._like(params), copy(params))

    def move(self, params: PyTree, lam: Number) -> PyTree:
        lam = number("lam", lam)
        return jax.tree.map(
            lambda m, p: module(lam, m).exp(lam * m) * p, self._like(params), copy(params)
        )

    def lengths(self, params: PyTree) -> Number:
        image = self.apply(params)
        total = sum((leaf * leaf).sum() for leaf in jax.tree.leaves(image))
        return module(total).sqrt(total)

    def _like(self, params) -> PyTree:
        """The diagonal, if it is of the parameters' structure and shapes."""
        if jax.tree.structure(params) != jax.tree.structure(self.mu):
            raise ValueError(
                f"a symmetry acts on {jax.tree.structure(self.mu)}, but the parameters are "
                f"{jax.tree.structure(params)}"
            )
        shapes = [[np.shape(x) for x in jax.tree.leaves(t)] for t in (self.mu, params)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"a symmetry acts on shapes {shapes[0]}, got {shapes[1]}")
        return self.mu


def weighted(mu: PyTree) -> Weighted:
    r"""A diagonal generator: $C = \sum_i \mu_i \theta_i^2$, and the move multiplies by e^{λμ}.

    For example −½ on what enters a unit with a squared activation and +1 on what leaves it.

    Args:
        mu: numbers of the parameters' structure and shapes.
    """
    return Weighted(jax.tree.map(lambda leaf: checks.array("mu", leaf), mu))


def diagonals(symmetry: Symmetry, params: PyTree) -> tuple[np.ndarray, np.ndarray] | None:
    """The diagonal generators of a family in one array, or None where it is not diagonal.

    Returns:
        For every ravelled parameter the generator that acts on it (its number in the family) and
        its eigenvalue, 0 where none does: units of a layer share no parameter.
    """
    ones = jax.tree.map(lambda leaf: np.ones(np.shape(leaf)), params)
    if isinstance(symmetry, Neurons):
        count = np.size(symmetry.charge(ones))
        numbers: Any = np.arange(1.0, count + 1)
        marked = _flat(symmetry.apply(ones, numbers))
        return np.maximum(np.abs(marked).astype(int) - 1, 0), np.sign(marked)
    if isinstance(symmetry, (Rescaling, Weighted)):
        mu = _flat(symmetry.apply(ones))
        return np.zeros(mu.size, dtype=int), mu
    return None


def _flat(tree: PyTree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)] or [np.zeros(0)])
