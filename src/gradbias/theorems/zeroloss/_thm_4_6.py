"""The limiting diffusion, Theorem 4.6, and the stationary law of isotropic noise."""

from typing import Any

import numpy as np
import scipy.linalg

from ..._engine.setup import Setup
from ...dynamics import Descent
from ...nets import FunctionNet
from ...numerics.host_rng import generator
from ...theory import manifold
from .. import _shared_hypotheses as common
from .._claims import equals, measured
from .._erratum import Erratum
from .._hypothesis import kind
from .._source import ZEROLOSS as SOURCE
from .._theorem import Control, Theorem
from ._instances_copies import (
    CURVE,
    CURVES,
    MOTORS,
    RECORD,
    CircleNoise,
    angles,
    end_time,
    motors,
    of_net,
    setup,
    small_step,
)
from ._lemma_c8 import tangential

MODES = 32  # of the Fourier series on the circle
MANY = 8192  # copies on the ellipse: means must tell the powers of |H|₊ apart


def constant_noise(key: int) -> np.ndarray:
    """A factor with noise along the manifold, across it, and both correlated."""
    return 0.35 * generator(key, "zeroloss constant noise").standard_normal((5, 5)) + 0.3 * np.eye(
        5
    )


def diffused(key: int, size: float = 1.0) -> Setup:
    """The motor's loss under constant noise."""
    return motors(key, CircleNoise(size * constant_noise(key)), 800)


def kolmogorov(sigma: np.ndarray, phi: float, time: float) -> complex:
    """E e^{iφ(t)} of the limiting diffusion on the circle, by a Fourier series.

    f(φ) = E[e^{iφ(t)} | φ(0) = φ] solves f' = b f_φ + ½a f_φφ, with drift b and variance a of
    the angle.
    """
    grid = 2 * np.pi * np.arange(MODES) / MODES
    b, a = np.transpose([tangential(g, sigma) for g in grid])
    k = np.fft.fftfreq(MODES, 1 / MODES)
    waves = np.exp(1j * np.outer(grid, k))
    generator_ = b[:, None] * (1j * k) * waves - 0.5 * a[:, None] * k**2 * waves
    operator = waves.conj().T / MODES @ generator_
    start = (k == 1).astype(complex)
    return complex(np.exp(1j * k * phi) @ scipy.linalg.expm(time * operator) @ start)


def predict_diffusion(setup: Setup, noise: Any = None) -> dict[str, Any]:
    """E(cos φ, sin φ) at the end."""
    law: Any = getattr(setup.dynamics, "noise", None) if noise is None else noise
    x = np.asarray(setup.params["x"])[0]
    sigma = law.matrix @ law.matrix.T
    mean = kolmogorov(sigma, float(np.arctan2(x[1], x[0])), end_time(setup))
    return {"mean": equals([mean.real, mean.imag], scale=1.0)}


def diffusion(runs: Any) -> dict[str, Any]:
    """The means over the copies."""
    phi = angles(runs["run"])[-1]
    points = np.stack([np.cos(phi), np.sin(phi)])
    error = points.std(axis=1, ddof=1) / np.sqrt(len(phi))
    return {"mean": measured(points.mean(axis=1), standard_error=error)}


THM4_6 = Theorem(
    "zeroloss.thm4.6",
    r"After $k = t/\eta^2$ steps SGD with gradient noise of covariance "
    r"$\Sigma = \sigma\sigma^\top$ is, as $\eta \to 0$, distributed as $Y(t)$ with "
    r"$dY = P\sigma\,dW + \frac{1}{2}\partial^2\Phi(Y)[\Sigma]\,dt$ and $Y(0) = \Phi(x(0))$; "
    r"up to $O(\eta)$ for smooth functions.",
    [
        of_net(MOTORS, "the motor"),
        kind("the noise is constant", lambda s: _is_constant(s.dynamics)),
        *common.plain(),
        small_step(1.0),
    ],
    predict_diffusion,
    diffusion,
    0.01,
    diffused,
    [
        Control(
            "the noise has that covariance",
            lambda key: diffused(key, 0.0),
            lambda s: predict_diffusion(s, CircleNoise(constant_noise(s.key))),
        )
    ],
    nets=(FunctionNet,),
    dynamics=(Descent,),
    needs=RECORD,
    errata=(
        Erratum(
            "Theorem 4.6", r"$Y(0) = x(0)$ as we read it", r"$Y(0) = \Phi(x(0))$", "convention"
        ),
        Erratum(
            "proof of Theorem 4.6",
            r"drift $\partial^2\Phi[\Sigma]$",
            r"drift $\frac{1}{2}\partial^2\Phi[\Sigma]$",
            "convention",
        ),
    ),
    source=SOURCE,
    title="the limiting diffusion",
)


def _is_constant(dynamics: Any) -> bool:
    noise = getattr(dynamics, "noise", None)
    return isinstance(noise, CircleNoise) and float(noise.phase) == 0


def around() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A fine grid around the ellipse: points, ln|H|₊ there and arc length."""
    phi = -np.pi + 2 * np.pi * (np.arange(4800) + 0.5) / 4800
    coarse = phi[::20]
    logs = [manifold.log_pdet(x, residual=CURVE.residual) for x in CURVE.point(coarse)]
    smooth = np.interp(phi, coarse, logs, period=2 * np.pi)
    length = np.hypot(float(CURVE.a) * np.sin(phi), float(CURVE.b) * np.cos(phi))
    return phi, smooth, length


def law(power: float = -0.5) -> tuple[np.ndarray, np.ndarray]:
    """Places on the ellipse, and |H|₊^power times arc length there, normalised."""
    phi, logs, length = around()
    weight = np.exp(power * logs) * length
    return phi, weight / weight.sum()


def ellipses(key: int, still: bool = False) -> Setup:
    """Copies on the ellipse, distributed as claimed: they must stay so.

    `still` puts all of them on one point, without noise.
    """
    phi, weight = law()
    places = (np.arange(MANY) + generator(key, "zeroloss ellipse").uniform()) / MANY
    start = CURVE.point(np.interp(places, np.cumsum(weight), phi))
    if still:
        start = np.tile(start[:1], (MANY, 1))
    return setup(CURVES, start, CircleNoise((not still) * np.eye(2)), 3000, key)


def features(x: np.ndarray) -> np.ndarray:
    """Functions on the ellipse, one a row: two waves, and ln|H|₊ by the residual's gradient."""
    a, b = float(CURVE.a), float(CURVE.b)
    polar = np.arctan2(x[:, 1], x[:, 0])
    on = CURVE.point(np.arctan2(x[:, 1] / b, x[:, 0] / a))
    weight = 1 + 0.6 * np.tanh(on[:, 0]) + 0.3 * on[:, 1] ** 2
    steep = weight * 4 * (on[:, 0] ** 2 / a**4 + on[:, 1] ** 2 / b**4)
    return np.stack([np.cos(polar), np.cos(2 * polar), np.log(steep)])


def predict_moments(setup: Setup) -> dict[str, Any]:
    """Means under |H|₊^{−1/2} times arc length."""
    phi, weight = law()
    means = features(CURVE.point(phi)) @ weight
    return {"means": equals(means, scale=1.0)}


def moments(runs: Any) -> dict[str, Any]:
    """Means over the copies at the end."""
    values = features(runs["run"].final["x"])
    error = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    return {"means": measured(values.mean(axis=1), standard_error=error)}


STATIONARY = Theorem(
    "zeroloss.cor5.1.stationary",
    r"On a compact manifold isotropic noise has the stationary density $1/\sqrt{|H|_+}$ with "
    r"respect to volume.",
    [
        of_net(CURVES, "the ellipse"),
        kind("the noise is isotropic", lambda s: _is_isotropic(s.dynamics)),
        *common.plain(),
        small_step(1.0),
    ],
    predict_moments,
    moments,
    0.01,
    ellipses,
    [Control("the noise is isotropic", lambda key: ellipses(key, still=True))],
    nets=(FunctionNet,),
    dynamics=(Descent,),
    needs=RECORD,
    slow=True,
    source=SOURCE,
    title="stationary density of isotropic noise",
)


def _is_isotropic(dynamics: Any) -> bool:
    noise = getattr(dynamics, "noise", None)
    return isinstance(noise, CircleNoise) and np.array_equal(noise.matrix, np.eye(2))


THEOREMS = (THM4_6, STATIONARY)
