"""A point of a diagonal net in logarithms: every flow multiplies, so here it adds."""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Point:
    """ln u², ln v² and x = ½ ln(u²/v²), in units of `scale`.

    x is kept beside the other two because each alone loses digits: in the kernel regime u² − v²
    cancels and only x knows the difference; after a long time x is the difference of large
    logarithms and only ln u² knows the size. A zero has the logarithm −∞, and stays zero.

    Attributes:
        log_u: (d,) ln u².
        log_v: (d,) ln v².
        x: (d,) half their difference; ±∞ where one of them is zero.
    """

    log_u: np.ndarray
    log_v: np.ndarray
    x: np.ndarray

    def moved(self, a: np.ndarray | float, sink: np.ndarray | float = 0.0) -> "Point":
        """u² e^{a − sink}, v² e^{−a − sink}: along a flow, and down in uv."""
        return Point(self.log_u + a - sink, self.log_v - a - sink, self.x + a)

    def theta(self) -> np.ndarray:
        """θ = u² − v²."""
        top = np.exp(np.maximum(self.log_u, self.log_v))
        return np.copysign(top, self.x) * -np.expm1(-2 * np.abs(self.x))

    @functools.cached_property
    def one_signed(self) -> bool:
        """Does some coordinate have a zero half?"""
        return bool(np.isinf(self.x).any())

    @functools.cached_property
    def log_theta(self) -> np.ndarray:
        """ln|θ|."""
        with np.errstate(divide="ignore"):
            return np.maximum(self.log_u, self.log_v) + np.log(-np.expm1(-2 * np.abs(self.x)))

    @functools.cached_property
    def log_mass(self) -> np.ndarray:
        """ln(u² + v²)."""
        return np.maximum(self.log_u, self.log_v) + np.log1p(np.exp(-2 * np.abs(self.x)))

    @functools.cached_property
    def digits_lost(self) -> np.ndarray:
        """The rounding of θ, in units of EPS·|θ|: that of a sum of logarithms as large as these."""
        top = np.maximum(self.log_u, self.log_v)
        return 4 + np.abs(np.where(np.isfinite(top), top, 0.0))

    def height(self) -> np.ndarray:
        """ln|uv|, or ln of the one that is not zero."""
        low = np.minimum(self.log_u, self.log_v)
        high = np.maximum(self.log_u, self.log_v)
        return np.where(np.isfinite(low), low / 2 + high / 2, high)


def point(u: np.ndarray, v: np.ndarray, scale: float) -> Point:
    """The point (u, v), with θ in units of `scale`."""
    with np.errstate(divide="ignore"):
        log_u = 2 * np.log(np.abs(u))
        log_v = 2 * np.log(np.abs(v))
    return Point(log_u - np.log(scale), log_v - np.log(scale), _half_ratio(u, v, log_u, log_v))


def _half_ratio(u: np.ndarray, v: np.ndarray, log_u: np.ndarray, log_v: np.ndarray) -> np.ndarray:
    """ln|u/v|, to full relative precision also where u and v are close; 0 where both are zero."""
    u = np.abs(u)
    v = np.abs(v)
    close = (u < 2 * v) & (v < 2 * u)
    near = np.log1p((u - v) / np.where(close, v, 1.0), where=close, out=np.zeros_like(u))
    both_zero = (u == 0) & (v == 0)
    far = np.subtract(log_u, log_v, where=~both_zero, out=np.zeros_like(u)) / 2
    return np.where(close, near, far)


def parameters(
    at: Point, u0: np.ndarray, v0: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """(u, v) with the signs of the start, which no flow changes."""
    root = np.log(scale) / 2
    u = np.exp(at.log_u / 2 + root)
    v = np.exp(at.log_v / 2 + root)
    return np.copysign(u, u0), np.copysign(v, v0)
