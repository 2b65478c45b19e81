"""Whitened data, XᵀX or XXᵀ = c·I: every singular value is learned on its own (Theorem C.12)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ._svd import nonnegative, positive


class _Units(NamedTuple):
    """Both scales divided by the larger one, so that nothing is squared out of range."""

    sigma: Any
    gamma: Any
    s: Any
    w: Any
    v: Any
    unit: Any
    speed: Any


def whitened_trajectory(
    sigma: ArrayLike, gamma: float, t: ArrayLike, scale: float = 1.0
) -> np.ndarray:
    r"""Singular values on whitened data, $\sigma' = 2\sqrt{\sigma^2+\gamma^2}(\sigma^*-\sigma)$.

    With $s=\sqrt{\sigma^{*2}+\gamma^2}$, $w=s+\gamma$, $v=\sigma^{*2}/w$ and $E=e^{-2st}$,

    $$\sigma(t) = \frac{\gamma\sigma^*(1-E)(w+vE)}{\gamma(w-vE^2)+2\sigma^{*2}E},$$

    exact for every γ; the form in the paper loses all digits at γ = 1e-15. The singular vectors
    stand still, so β(t) = U* diag(σ(t)) V*ᵀ.

    Args:
        sigma: singular values of the limit β*, at least 0, of any shape.
        gamma: the scale of the init, above 0.
        t: times, at least 0, of any shape, for L = ½‖Xβ − Y‖².
        scale: c of XᵀX = c·I or XXᵀ = c·I; time runs c times as fast.

    Returns:
        σ(t), of shape t.shape + sigma.shape.
    """
    u = _units(sigma, gamma, scale)
    exponent = np.multiply.outer(nonnegative("t", t), -2 * u.speed)
    E = np.exp(exponent)
    learned = u.gamma * u.sigma * -np.expm1(exponent) * (u.w + u.v * E)
    return np.asarray(u.unit * (learned / (u.gamma * (u.w - u.v * E * E) + 2 * u.sigma**2 * E)))


def activation_time(
    sigma: ArrayLike, gamma: float, fraction: float = 0.5, scale: float = 1.0
) -> np.ndarray:
    r"""When σ(t) = fraction·σ* on whitened data, exactly.

    $t = -\ln E/(2s)$ with $E = (\sigma^*-aw)/(\sigma^*+av)$ and
    $a = \sigma/(\gamma+\sqrt{\sigma^2+\gamma^2})$, written without its differences. For γ → 0
    and one half it is `half_time`. A σ* of 0 gets the limit −ln(1 − fraction)/(2γ).

    Args:
        sigma: singular values of the limit β*, at least 0, of any shape.
        gamma: the scale of the init, above 0.
        fraction: between 0 and 1.
        scale: c of XᵀX = c·I or XXᵀ = c·I; time runs c times as fast.

    Returns:
        Times for L = ½‖Xβ − Y‖², of the shape of `sigma`.
    """
    u = _units(sigma, gamma, scale)
    f = checks.number("fraction", fraction, above=0, below=1)
    p = np.hypot(f * u.sigma, u.gamma)
    whole = u.gamma + p + f * u.v
    left = u.gamma * (1 - f) * (1 + u.gamma * (1 + f) / (p + f * u.s)) / whole  # E
    gone = 2 * f * u.s / whole  # 1 − E
    late = -np.log(np.where(gone < 0.5, 1.0, left))
    early = -np.log1p(-np.where(gone < 0.5, gone, 0.0))
    with np.errstate(over="ignore", divide="ignore"):  # of speeds beyond float64
        return np.asarray((early + late) / (2 * u.speed))


def half_time(sigma: ArrayLike, gamma: float, scale: float = 1.0) -> np.ndarray:
    r"""When half of σ* is learned, for γ ≪ σ*: $\ln(2\sigma^*/\gamma)/(2\sigma^*)$.

    The paper's $-\ln\gamma/(2\sigma^*)$ is where σ reaches σ*/(1 + 2σ*), which depends on units.

    Args:
        sigma: singular values of the limit β*, above 0, of any shape.
        gamma: the scale of the init, above 0.
        scale: c of XᵀX = c·I or XXᵀ = c·I; time runs c times as fast.
    """
    star = _above_zero("sigma", sigma)
    c = checks.number("scale", scale, above=0)
    with np.errstate(over="ignore", divide="ignore"):  # of speeds beyond float64
        return np.asarray((np.log(2 * star) - np.log(positive(gamma))) / (2 * c * star))


def jump_limit(sigma: ArrayLike, time: ArrayLike, scale: float = 1.0) -> np.ndarray:
    r"""The limit γ → 0 of σ(ln(1/γ)·time): a jump at time = 1/(2σ*).

    Zero before the jump, σ* after it, and σ*/(1 + 2σ*) at that very time.

    Args:
        sigma: singular values of the limit β*, above 0, of any shape.
        time: rescaled times, at least 0, of any shape.
        scale: c of XᵀX = c·I or XXᵀ = c·I; time runs c times as fast.

    Returns:
        Of shape time.shape + sigma.shape.
    """
    star = _above_zero("sigma", sigma)
    c = checks.number("scale", scale, above=0)
    phase = np.multiply.outer(nonnegative("time", time), 2 * c * star)
    return np.where(phase > 1, star, np.where(phase < 1, 0.0, star / (1 + 2 * star)))


def _units(sigma: ArrayLike, gamma: float, scale: float) -> _Units:
    star = nonnegative("sigma", sigma)
    gamma = positive(gamma)
    unit = np.maximum(star, gamma)
    small = star / unit
    rest = gamma / unit
    if np.any(rest < 1e-307):
        raise ValueError(f"gamma must be at least 1e-307 of sigma, got {gamma} and {star.max()}")
    s = np.hypot(small, rest)
    with np.errstate(over="ignore"):
        speed = checks.number("scale", scale, above=0) * np.hypot(star, gamma)
    return _Units(small, rest, s, s + rest, small**2 / (s + rest), unit, speed)


def _above_zero(name: str, value: ArrayLike) -> np.ndarray:
    array = checks.array(name, value)
    if np.any(array <= 0):
        raise ValueError(f"{name} must be greater than 0, got {array.min()}")
    return array
