"""Where a point stands: its normal space, and how far it is from the manifold (host)."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..._manifold.normal_space import RTOL, NormalSpace, decompose, hessian_rows, length, mismatch
from ..._manifold.rank import Rank, decide, warn_if_unclear
from ..._manifold.target import Target
from ...numerics import checks
from ...numerics.linalg import one_blas_thread, rank_threshold
from ...numerics.types import Array

DENSE = 200  # parameters: from here on no D×D matrix is made
MOST = 1024  # the largest rank that is looked for when only a loss of many parameters is known
# What counts of a Hessian near the manifold, where tangent eigenvalues are of the size of the
# distance, and on it.
NEAR = 1e-5
ON = 1e-9


class Standing(NamedTuple):
    """A point and its normal space.

    Attributes:
        space: the normal space.
        rank: its dimension, and how clear that is.
        values: all singular values of J, or eigenvalues of the Hessian, that were looked at.
        distance: ‖H⁺∇L‖, which is ‖J⁺r‖: how far a Newton step goes.
        mismatch: how far the Hessian is from its part in the space, relatively.
    """

    space: NormalSpace
    rank: Rank
    values: np.ndarray
    distance: float
    mismatch: float


def stand(target: Target, flat: np.ndarray, rank: int | None = None, rtol: float = 0) -> Standing:
    """The normal space at a point that need not be on the manifold.

    Args:
        target: the loss or residual.
        flat: the point.
        rank: the user's own rank.
        rtol: of singular values of J, or of eigenvalues of the Hessian; 0 for the default.
    """
    with one_blas_thread():  # several wait for each other on a busy machine
        values, rows, left, shape = _spectrum(target, flat)
    found = decide(values, shape, rank, rtol or (RTOL if target.squares else ON))
    kept = values[: found.rank]
    if left is None:
        space = NormalSpace(rows[: found.rank], kept)
    else:
        space = NormalSpace(rows[: found.rank], kept * kept, left[:, : found.rank] * kept)
    distance, error = map(float, _judge(target, flat, space))
    return Standing(space, found, values, distance, _relative(error, target, values))


def require_on_manifold(
    target: Target, flat: np.ndarray, rank: int | None, tol: float, stacklevel: int = 4
) -> Standing:
    """The normal space of a point on the manifold; a ValueError for a point off it."""
    tol = checks.number("tol", tol, above=0)
    here = stand(target, flat, rank)
    far = scale(flat)
    if not here.distance <= tol * far:
        raise ValueError(
            f"x must be on the manifold of minimisers, got a point {here.distance:.1e} away from "
            f"it (‖x‖ = {far:.1e}, tol = {tol:.0e}): start from limit_point(x, …).x, or raise tol "
            "if you accept an error of that relative size"
        )
    if not here.mismatch <= 100 * tol:
        what = "JᵀJ" if target.squares else "a positive semi-definite matrix"
        raise ValueError(
            f"x must be a minimum with zero residual, got a stationary point where the Hessian "
            f"differs from {what} by {here.mismatch:.1e}: a saddle, or a minimum that does not "
            "fit the data (for the latter, give loss= instead of residual=)"
        )
    warn_if_unclear(here.rank, here.values, "J" if target.squares else "the Hessian", stacklevel)
    return here


def scale(flat: np.ndarray) -> float:
    """The size of a point, to which distances are compared."""
    return float(np.linalg.norm(flat)) or 1.0


def _relative(error: float, target: Target, values: np.ndarray) -> float:
    if not target.squares:  # what was left out of the space: negative curvature is not rounding
        error = max(error, float(-values.min(initial=0.0)))
    largest = float(np.abs(values).max(initial=0.0))
    largest = largest**2 if target.squares else largest
    if error <= 0:
        return 0.0
    return error / largest if largest > 0 else np.inf


def _spectrum(
    target: Target, flat: np.ndarray
) -> tuple[np.ndarray, Any, np.ndarray | None, tuple[int, ...]]:
    """Values, rows and left singular vectors (of a Hessian None), and the size of the matrix."""
    if target.squares:
        left, s, rows = _svd(target, flat) if target.size >= DENSE else _small_svd(target, flat)
        _refuse_nan(s, "Jacobian of the residual")
        return np.asarray(s), rows, np.asarray(left), (len(left), target.size)
    if target.size < DENSE:
        H = np.asarray(_dense(target, flat))
        _refuse_nan(H, "Hessian of the loss")
        values, vectors = np.linalg.eigh((H + H.T) / 2)
        values = values[::-1]
        rows = vectors[:, ::-1].T
    else:
        values, rows = _range(target, flat)
    _refuse_nan(values, "Hessian of the loss")
    return np.asarray(values), np.asarray(rows), None, (target.size, target.size)


def _refuse_nan(values: ArrayLike, what: str) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"x: the {what} is not finite there (NaN or infinite)")


def _range(target: Target, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The non-zero spectrum of the Hessian from products with random vectors.

    The range of a matrix of rank r is that of its image of r random vectors, up to rounding; one
    more product and a Rayleigh–Ritz step give the eigenvalues. Doubled until some of them vanish.
    """
    rng = np.random.default_rng(0)
    count = 32
    while True:
        count = min(count, target.size)
        values, rows = map(np.asarray, _ritz(target, flat, rng.standard_normal((count, len(flat)))))
        floor = rank_threshold(np.abs(values), (len(flat),))
        if count == target.size or np.abs(values).min() <= max(ON * np.abs(values).max(), floor):
            return values, rows
        if count >= MOST:
            raise ValueError(
                f"loss: its Hessian has rank above {MOST} at x, too much without a residual: give "
                "residual= (L = ½‖residual‖²), whose Jacobian has one row for every residual"
            )
        count *= 2


def _small_svd(target: Target, flat: np.ndarray) -> tuple[Any, Any, Any]:
    J = np.asarray(_jacobian(target, flat))
    _refuse_nan(J, "Jacobian of the residual")
    return np.linalg.svd(J, full_matrices=False)


@eqx.filter_jit
def _jacobian(target: Target, flat) -> Array:
    return target.jacobian(flat)


@eqx.filter_jit
def _svd(target: Target, flat) -> tuple[Any, Any, Any]:
    return tuple(decompose(target.jacobian(flat)))


@eqx.filter_jit
def _dense(target: Target, flat) -> Array:
    return jax.vmap(lambda v: target.hessian_product(flat, v))(jnp.eye(flat.size))


@eqx.filter_jit
def _ritz(target: Target, flat, vectors) -> tuple[Any, Any]:
    Q = jnp.linalg.qr(_products(target, flat, vectors).T)[0].T
    Q = jnp.linalg.qr(_products(target, flat, Q).T)[0].T
    values, rotation = hessian_rows(_products(target, flat, Q) @ Q.T)
    return values, rotation @ Q


def _products(target: Target, flat, rows) -> Array:
    return jax.lax.map(lambda v: target.hessian_product(flat, v), rows, batch_size=32)


@eqx.filter_jit
def _judge(target: Target, flat, space: NormalSpace) -> tuple[Any, Any]:
    return length(space.solve(target.gradient(flat))), mismatch(target, flat, space)
