"""The manifold of minimisers of a problem: a loss that vanishes there (jax-level)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._manifold.residuals import Residuals
from .._manifold.target import Target
from ..nets import LinearNet, Net
from ..nets.base import as_matrix
from ..numerics.types import Array
from ..problems import Regression, Samples
from ..problems._population import Fresh
from ..theory.manifold._on_manifold import DENSE
from ._output_loss import OutputLoss

MOST_DENSE = 2000  # parameters
MOST_NUMBERS = 10**9  # of a Jacobian: 8 GB, and some copies of it


class FreshResiduals(eqx.Module):
    """√(2·weight)·R(Θ − Θ*) of a linear net on Population: ½‖residual‖² is the excess loss."""

    problem: Any
    net: Any

    def __call__(self, params) -> Array:
        error = self.problem.standardised(as_matrix(self.net.predictor(params)))
        return jnp.sqrt(2.0 * jnp.asarray(self.problem.weight)) * error


class AnyLoss(eqx.Module):
    """The loss of a problem that knows no residual."""

    problem: Any
    net: Any

    def __call__(self, params) -> jax.Array:
        return self.problem.net_loss(self.net, params)


def refuse_dense(size: int) -> None:
    """A whole Hessian takes D² numbers, and its eigenvectors as many again."""
    if size > MOST_DENSE:
        raise ValueError(
            f"problem: the limit of this loss takes its whole Hessian, for up to {MOST_DENSE} "
            f"parameters, got {size}: where every sample is fitted, gb.Samples without dense=True "
            "takes the Jacobian of the outputs instead"
        )


def refuse_wide(rows: int, size: int) -> None:
    """Everything else takes some copies of the Jacobian."""
    if rows * size > MOST_NUMBERS:
        raise ValueError(
            f"problem: the limit takes the Jacobian of all outputs, {rows} × {size} numbers, got "
            f"more than the {MOST_NUMBERS:.0e} that are allowed: use fewer samples or parameters"
        )


class Ground(eqx.Module):
    """What is known of the manifold before a point of it is.

    Attributes:
        labels: (n, k) the labels that can be fitted, of which the loss differs by a constant only;
            None where the problem has no rows under squared loss.
        dense: does another loss take its whole Hessian, even of many parameters?
    """

    labels: Any
    dense: bool = eqx.field(static=True, default=False)

    def target(self, problem, net: Net, params) -> Target:
        """The loss above its minimum as a function of a flat vector."""
        leaves, structure = jax.tree.flatten(params)
        shapes = tuple(leaf.shape for leaf in leaves)
        function, squares = self._function(problem, net, sum(leaf.size for leaf in leaves))
        nothing = jax.tree.map(lambda _: None, params)
        return Target(function, nothing, structure, shapes, squares)

    def _function(self, problem, net: Net, size: int) -> tuple[Any, bool]:
        if self.labels is not None or isinstance(problem, Samples):
            refuse_wide(problem.n * int(np.prod(np.shape(problem.Y)[1:], dtype=int)), size)
        if self.labels is not None:
            labels = self.labels.reshape(np.shape(problem.Y))
            return Residuals(eqx.tree_at(lambda p: p.Y, problem, labels), net), True
        if isinstance(problem, Fresh):
            return FreshResiduals(problem, net), True
        if isinstance(problem, Samples) and size >= DENSE and not self.dense:
            return OutputLoss(problem, net), False
        refuse_dense(size)
        return AnyLoss(problem, net), False


def ground(problem, net: Net, dense: bool = False) -> Ground:
    """The ground of a problem; conflicting labels are replaced by what a net can fit of them."""
    if not isinstance(problem, Regression):
        return Ground(None, dense)
    return Ground((_projected if isinstance(net, LinearNet) else _averaged)(problem))


def _projected(problem: Regression) -> jax.Array:
    """The part of the labels in the column space of X: all that a linear predictor can fit."""
    X = jnp.asarray(problem.X)
    Y = jnp.asarray(problem.labels)
    U, s, _ = jnp.linalg.svd(X, full_matrices=False)
    kept = s > s[0] * max(X.shape) * np.finfo(np.float64).eps
    U = jnp.where(kept[None, :], U, 0.0)
    # What is left over is tiny where all can be fitted: subtracted, it costs no digits of Y.
    return Y - _outside(U, _outside(U, Y))


def _outside(U, Y) -> jax.Array:
    return Y - U @ (U.T @ Y)


def _averaged(problem: Regression) -> jax.Array:
    """The mean label of equal inputs: no function of the input fits more."""
    X = jnp.asarray(problem.X)
    Y = jnp.asarray(problem.labels)

    def mean(x):
        same = jnp.all(x[None, :] == X, axis=1).astype(Y.dtype)
        return (same @ Y) / jnp.sum(same)

    return jax.lax.map(mean, X)
