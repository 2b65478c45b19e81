"""The projector on the tangent space of the manifold, as an operator."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
import scipy.linalg
import scipy.linalg.lapack as lapack
from scipy.sparse.linalg import LinearOperator

from ..._manifold.target import Target, target_at
from ...numerics import checks
from ...numerics.linalg import one_blas_thread
from ...numerics.precision import host
from ...numerics.types import PyTree
from ._on_manifold import DENSE, require_on_manifold, scale
from ._second_derivative import TOL

_LAPACK: Any = lapack  # without stubs
CONDITION = 1e10  # of JJᵀ, up to which its Cholesky factor is as good as a decomposition of J


class TangentProjector(LinearOperator):
    """P as an operator on flat vectors, `P @ v`; `P.dense()` is the matrix.

    Attributes:
        rank: the number of normal directions, D minus the rank of P.
        gap: the last singular value that counts over the first that does not (or over rounding).
        distance: how far x is from the manifold, by a Newton step.
    """

    def __init__(
        self,
        normal: Callable[[np.ndarray], np.ndarray],
        D: int,
        rank: int,
        gap: float,
        far: float,
        basis: np.ndarray | None = None,
    ):
        super().__init__(np.dtype(np.float64), (D, D))
        self._normal = normal
        self._basis = basis
        self.rank = rank
        self.gap = gap
        self.distance = far

    def _matmat(self, X: np.ndarray) -> np.ndarray:
        once = X - self._normal(X)
        return once - self._normal(once)  # what a first pass leaves is rounding

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._matmat(np.reshape(x, (-1, 1))).reshape(np.shape(x))

    def dense(self) -> np.ndarray:
        """P as a (D, D) matrix."""
        one = np.eye(self.shape[0])
        P = one - (self._normal(one) if self._basis is None else self._basis.T @ self._basis)
        return P @ P  # symmetric, and the second pass removes the first one's rounding

    def _adjoint(self) -> Any:
        return self


@host
def tangent_projector(
    x: PyTree,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    tol: float = TOL,
) -> TangentProjector:
    """P, the orthogonal projector on the tangent space of the manifold of minimisers at x.

    From the Jacobian of the residual, I − J⁺J, in memory O(nD); from the Hessian if only a loss
    is known. The rank comes from the singular values, and a warning says when they have no gap.

    Args:
        x: a point of the manifold: an array, or a PyTree such as an equinox module.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².
        rank: the number of normal directions, where the spectrum does not show it.
        tol: how far x may be from the manifold, relative to ‖x‖.

    Returns:
        A SciPy linear operator on vectors in the order of `jax.flatten_util.ravel_pytree(x)`.
    """
    target, flat = target_at(x, loss, residual)
    if target.size >= DENSE and target.squares and rank is None:
        fast = by_cholesky(target, flat, checks.number("tol", tol, above=0))
        if fast is not None:
            return fast[0]
    here = require_on_manifold(target, flat, rank, tol)
    B = np.asarray(here.space.basis)

    def normal(X: np.ndarray) -> np.ndarray:
        return B.T @ (B @ X)

    rank, gap = here.rank
    return TangentProjector(normal, target.size, rank, gap, here.distance, B)


def by_cholesky(
    target: Target, flat: np.ndarray, tol: float
) -> tuple[TangentProjector, np.ndarray] | None:
    """P from JJᵀ, and J, where J has clearly full rank and x is clearly on Γ; else None."""
    J, r = map(np.asarray, _linearised(target, flat))
    if len(J) > target.size:
        return None
    with one_blas_thread():
        gram = J @ J.T  # three times as fast as compiled code's
        if not np.isfinite(gram).all():
            return None
        factor, failed = _LAPACK.dpotrf(gram, lower=1)
        if failed:
            return None
        norm = np.abs(gram).sum(axis=0).max()
        inverse_condition, _ = _LAPACK.dpocon(factor, norm, uplo="L")
        if not inverse_condition * CONDITION > 1:
            return None
        distance = float(np.linalg.norm(J.T @ scipy.linalg.cho_solve((factor, True), r)))
    # A J of full rank and a short Newton step: the residual is small, and the Hessian is JᵀJ.
    if not distance <= tol * scale(flat):
        return None
    gap = float(np.sqrt(inverse_condition)) / (max(J.shape) * np.finfo(np.float64).eps)

    def normal(X: np.ndarray) -> np.ndarray:
        return J.T @ scipy.linalg.cho_solve((factor, True), J @ X)

    return TangentProjector(normal, target.size, len(J), gap, distance), J


@eqx.filter_jit
def _linearised(target: Target, flat) -> tuple[Any, Any]:
    return target.jacobian(flat), target.residual(flat)
