"""The dimension of the set of interpolators."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..nets import Deep, LinearNet, Net, Rank1, TwoLayer
from ..numerics import lanczos
from ..numerics.linalg import thin_svd
from ..numerics.types import PyTree
from ..problems import Problem, QuadraticProblem
from .base import Measurement, Observable, refuse

_LARGEST = 2 * 10**8  # entries of a Jacobian, 1.6 GB


class InterpolatorDimension(Observable):
    """The number of parameters minus the rank of the Jacobian of the outputs on the data.

    At an interpolating point where that rank is locally constant it is the dimension of the set
    of interpolators around it. Linear nets are measured on an orthonormal basis of the row
    space, which has the same rank and does not suffer from the conditioning of X.
    """

    @property
    def name(self) -> str:
        return "interpolator_dimension"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        linear = isinstance(net, LinearNet)
        if linear and isinstance(problem, QuadraticProblem):
            return OnInputs(np.asarray(problem.row_space).T)
        X = getattr(problem, "X", None)
        if X is None:
            refuse(self, "finite data, or a linear net on a Population", net)
        return OnInputs(thin_svd(np.asarray(X)).Vt if linear else np.asarray(X))

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> PyTree:
        raise ValueError("interpolator_dimension must be bound to a problem: call bind")


class OnInputs(eqx.Module):
    """The dimension of the parameters that leave the outputs on these rows as they are."""

    rows: Any

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> jax.Array:
        flat, unravel = ravel_pytree(params)
        if isinstance(net, (TwoLayer, Deep, Rank1)):
            jacobian = chain_jacobian(self.rows, net.factors(params))
        else:
            _check_size(len(self.rows) * problem.k * flat.size)
            jacobian = _jacobian(net, self.rows, flat, unravel)
        rank = lanczos.numerical_rank(lanczos.singular_values(jacobian), jacobian.shape)
        return flat.size - rank.astype(flat.dtype)


def chain_jacobian(rows, factors: list[Any]) -> jax.Array:
    """A matrix with the singular values of the Jacobian of rows·F1 … FN, without its width.

    The derivative in F_k is A_k ⊗ B_kᵀ with A_k = rows F1 … F_{k−1} and B_k = F_{k+1} … FN.
    A rotation of the hidden units makes each thin, which keeps JJᵀ without ever squaring J.
    """
    after = [jnp.eye(factors[-1].shape[1])]
    for factor in factors[:0:-1]:
        after.insert(0, factor @ after[0])
    before = jnp.asarray(rows)
    blocks = []
    for factor, rest in zip(factors, after, strict=True):
        blocks.append(jnp.kron(_thin(before), _thin(rest.T)))
        before = before @ factor
    return jnp.concatenate(blocks, axis=1)


def _thin(matrix) -> jax.Array:
    """A matrix of at most as many columns as rows, with the same matrix·matrixᵀ."""
    rows, columns = matrix.shape
    if rows == 0 or columns <= rows:
        return matrix
    return jnp.linalg.qr(matrix.T, mode="r").T


def _jacobian(net, rows, flat, unravel) -> jax.Array:
    def outputs(p, row):
        return net(unravel(p), row[None, :]).reshape(-1)

    # Sample by sample: one reverse pass through the whole batch for every output costs far more.
    of_row = jax.vmap(jax.jacrev(outputs), in_axes=(None, 0))
    return of_row(flat, jnp.asarray(rows)).reshape(-1, flat.size)


def _check_size(entries: int) -> None:
    if entries > _LARGEST:
        raise ValueError(
            f"observable 'interpolator_dimension' needs a Jacobian of {entries:.2g} entries "
            f"({8e-9 * entries:.2g} GB), more than {_LARGEST:.2g}: use fewer samples or parameters"
        )


interpolator_dimension: InterpolatorDimension = InterpolatorDimension()
