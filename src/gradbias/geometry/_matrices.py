"""Norms of the singular values of one matrix; a vector counts as a single column."""

from ..numerics.types import Array, Number, PyTree
from .base import Geometry, as_array, module_of

NOTHING = 1e-12  # singular values below this part of the largest count as zero


class Spectral(Geometry):
    """The largest singular value; steepest is UVᵀ, the polar factor: Muon, spectral descent.

    Singular values of the gradient below 1e-12 of the largest count as zero: their directions
    are not taken.
    """

    @property
    def rotates(self) -> bool:
        return True

    @property
    def charge_power(self) -> float:
        return 1.0

    def norm(self, x: PyTree) -> Number:
        return _values(self, x).max(initial=0.0)

    def dual_norm(self, g: PyTree) -> Number:
        return _values(self, g).sum()

    def steepest(self, g: PyTree) -> PyTree:
        matrix, shape = _matrix(self, g)
        xp = module_of(matrix)
        U, s, Vt = xp.linalg.svd(matrix, full_matrices=False)
        seen = (s > 0) & ~(s < NOTHING * s.max(initial=0.0)) | xp.isnan(s)
        return ((U * xp.where(seen, 1.0, 0.0)[None, :]) @ Vt).reshape(shape)


class Nuclear(Geometry):
    """The sum of the singular values; steepest is u₁v₁ᵀ of the largest: greedy low rank.

    Of equal singular values the first of the decomposition is taken.
    """

    @property
    def rotates(self) -> bool:
        return True

    def norm(self, x: PyTree) -> Number:
        return _values(self, x).sum()

    def dual_norm(self, g: PyTree) -> Number:
        return _values(self, g).max(initial=0.0)

    def steepest(self, g: PyTree) -> PyTree:
        matrix, shape = _matrix(self, g)
        xp = module_of(matrix)
        U, s, Vt = xp.linalg.svd(matrix, full_matrices=False)
        step = xp.where(s[:1] == 0, 0.0, U[:, :1]) @ Vt[:1]
        return step.reshape(shape)


def _values(geometry: Geometry, x: PyTree) -> Array:
    matrix, _ = _matrix(geometry, x)
    return module_of(matrix).linalg.svd(matrix, compute_uv=False)


def _matrix(geometry: Geometry, x: PyTree) -> tuple[Array, tuple[int, ...]]:
    """One matrix, and the shape in which it came."""
    name = type(geometry).__name__
    if isinstance(x, dict):
        raise ValueError(
            f"gb.geometry.{name} is a norm of one matrix, got parameters {sorted(x)}: "
            f"gb.geometry.Product(gb.geometry.{name}) takes each by itself"
        )
    matrix = as_array(x)
    if matrix.ndim not in (1, 2):
        raise ValueError(
            f"gb.geometry.{name} is a norm of matrices and vectors, got shape {matrix.shape}"
        )
    return (matrix[:, None] if matrix.ndim == 1 else matrix), matrix.shape
