"""Parameters and gradients in the eigenbasis of a generator: what λ* is made of."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._generators.mixing import General, Hyperbolic, Pair
from .._generators.symmetry import Neurons, Rescaling, Symmetry
from ..numerics import checks
from ..numerics.types import Array, PyTree
from ._weighted import Weighted


class Squares(eqx.Module):
    """The squares of a tree along the eigenvectors of every generator of a family.

    (…, m), the first axes those of the charge; equal eigenvalues are summed where that is easy.
    A matrix family, `pair` without B, has the matrices of its two sides instead.

    Attributes:
        symmetry: the family.
        vectors: its eigenvectors, where they are not coordinates.
    """

    symmetry: Symmetry
    vectors: Any = None

    def __call__(self, tree: PyTree) -> Array:
        symmetry = self.symmetry
        if isinstance(symmetry, Neurons):
            sides = [symmetry.plus, symmetry.minus]
            return jnp.stack([Neurons(side, ()).form(tree, tree) for side in sides], axis=-1)
        if isinstance(symmetry, Rescaling):
            sides = [
                sum((p.of(tree) ** 2).sum() for p in s) for s in (symmetry.plus, symmetry.minus)
            ]
            return jnp.stack([jnp.asarray(side, float) for side in sides])
        if isinstance(symmetry, Hyperbolic):
            u, v = symmetry._both(tree)
            return jnp.stack([(u + v) ** 2 / 2, (u - v) ** 2 / 2], axis=-1)
        if isinstance(symmetry, Pair):
            return self._seam(symmetry, tree)
        if isinstance(symmetry, General):
            return (self.vectors.T @ symmetry._flat(tree)) ** 2
        leaves = [jnp.reshape(leaf, -1) for leaf in jax.tree.leaves(tree)]
        return jnp.concatenate(leaves) ** 2

    def _seam(self, symmetry: Pair, tree: PyTree) -> jax.Array:
        L, R = symmetry._layers(tree)
        left = sum(a.T @ a for a in L)
        right = sum(b @ b.T for b in R)
        if symmetry.B is None:
            return jnp.stack([jnp.asarray(left), jnp.asarray(right)])
        Q = self.vectors
        return jnp.concatenate([jnp.sum((m @ Q) * Q, axis=0) for m in (left, right)])


def squares_of(symmetry: Symmetry) -> Squares:
    """The squares of one family, with its eigenvectors."""
    if isinstance(symmetry, General):
        return Squares(symmetry, np.linalg.eigh(symmetry.A)[1])
    if isinstance(symmetry, Pair) and symmetry.B is not None:
        return Squares(symmetry, np.linalg.eigh(symmetry.B)[1])
    known = isinstance(symmetry, (Neurons, Rescaling, Hyperbolic, Pair, Weighted))
    if not known:
        raise ValueError(
            f"the eigenbasis of {type(symmetry).__name__} is not known: declare it with "
            "gradbias.symmetry.general"
        )
    return Squares(symmetry)


def is_matrix(symmetry: Symmetry) -> bool:
    """Is it a whole family of mixing matrices, with a matrix for its charge?"""
    return isinstance(symmetry, Pair) and symmetry.B is None


def eigenvalues(symmetry: Symmetry) -> np.ndarray:
    """The eigenvalues that belong to the last axis of `Squares`."""
    if isinstance(symmetry, General):
        return np.linalg.eigh(symmetry.A)[0]
    if isinstance(symmetry, Pair):
        assert symmetry.B is not None
        values = np.linalg.eigh(symmetry.B)[0]
        return np.concatenate([values, -values])
    if isinstance(symmetry, Weighted):
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(symmetry.mu)])
    return np.array([1.0, -1.0])


def pulls(
    symmetry: Symmetry, noise: np.ndarray, squares: np.ndarray, kappa: float, gamma: float
) -> tuple[Any, Any]:
    """What drives each charge up and down: κ|μ|·noise and 4γ|μ|·squares, by sign.

    The charge stands still where they are equal. Matrices for a matrix family.
    """
    if is_matrix(symmetry):
        return kappa * noise[0] + 4 * gamma * squares[1], kappa * noise[1] + 4 * gamma * squares[0]
    mu = eigenvalues(symmetry)
    plus = np.maximum(mu, 0), np.maximum(-mu, 0)
    up = kappa * noise @ plus[0] + 4 * gamma * squares @ plus[1]
    return up, kappa * noise @ plus[1] + 4 * gamma * squares @ plus[0]


def rates(kappa: float, weight_decay: float) -> tuple[float, float]:
    """κ and γ, checked."""
    kappa = checks.number("kappa", kappa, at_least=0)
    gamma = checks.number("weight_decay", weight_decay, at_least=0)
    if kappa == 0 and gamma == 0:
        raise ValueError("kappa and weight_decay must not both be 0: nothing moves a charge then")
    return kappa, gamma
