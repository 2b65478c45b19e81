"""The ℓ1 norm of frequencies: what gradient descent on circular convolutions finds."""

from types import ModuleType

import numpy as np

from ..numerics.types import Array, Number, PyTree
from .base import Geometry, as_array, module_of


class Fourier(Geometry):
    """Σ|x̂_j| of the unitary discrete Fourier transform along the first axis.

    Steepest is one cosine wave: of the frequency with the largest |ĝ_j|, the lowest if several
    are equal.
    """

    def norm(self, x: PyTree) -> Number:
        x, xp = _real(x)
        return xp.sum(_twice(len(x), x.ndim) * xp.abs(_transform(x, xp)))

    def dual_norm(self, g: PyTree) -> Number:
        g, xp = _real(g)
        return xp.max(xp.abs(_transform(g, xp)), initial=0.0)

    def steepest(self, g: PyTree) -> PyTree:
        g, xp = _real(g)
        if g.size == 0:
            return g
        waves = _transform(g, xp)
        size = xp.abs(waves)
        chosen = xp.arange(waves.size).reshape(waves.shape) == xp.argmax(size)
        phase = waves / xp.where(size == 0, 1.0, size).astype(waves.dtype)
        # A wave and its mirror image share the norm; the two ends of the spectrum have none.
        alone = xp.where(chosen, phase / _twice(len(g), g.ndim).astype(waves.dtype), 0.0)
        return xp.fft.irfft(alone, n=len(g), axis=0, norm="ortho")


def _real(x: PyTree) -> tuple[Array, ModuleType]:
    if isinstance(x, dict):
        raise ValueError(
            f"gb.geometry.Fourier is a norm of one array, got parameters {sorted(x)}: "
            "gb.geometry.Product(gb.geometry.Fourier) takes each by itself"
        )
    array = as_array(x)
    if array.ndim == 0:
        raise ValueError("gb.geometry.Fourier is a norm of vectors, got a single number")
    return array, module_of(array)


def _transform(x: Array, xp: ModuleType) -> Array:
    return xp.fft.rfft(x, axis=0, norm="ortho")


def _twice(n: int, ndim: int) -> np.ndarray:
    """How often each frequency of `rfft` stands in the full transform."""
    j = np.arange(n // 2 + 1)
    count = np.where((j == 0) | (2 * j == n), 1.0, 2.0)
    return count.reshape(-1, *(1,) * (ndim - 1))
