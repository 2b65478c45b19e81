"""The limiting diffusion, Theorem 4.6, and the stationary law of isotropic noise."""

from collections.abc import Mapping

import numpy as np
import scipy.linalg

from ...numerics.host_rng import generator
from ...theory import manifold
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Measured,
    Measurements,
    Run,
    Setup,
    Theorem,
    common,
    equals,
    kind,
    setup_of,
)
from ._instances_copies import (
    CURVE,
    CURVES,
    MOTOR,
    MOTORS,
    CircleNoise,
    angles,
    circle_noise,
    motors,
    of_net,
    setup,
    steadied,
    two_steps,
)
from ._lemmas_4_3_4_5 import printed_9
from ._measurements import end_time
from ._paper import OF_COPIES
from ._two_steps import extrapolated, small_step

STEPS = 1200
DIFFUSION_LR = 0.02
CROWD = 24_576  # copies of the motor
MODES = 32  # of the Fourier series on the circle
MANY = 12_288  # copies on the ellipse: means must tell the powers of |H|₊ apart


def constant_noise(key: int) -> np.ndarray:
    """A factor with noise along the manifold, most of it across, and both correlated."""
    drawn = generator(key, "zeroloss constant noise").standard_normal((5, 5))
    return 0.35 * drawn + np.diag([0.3, 0.3, 1.4, 0.3, 0.3])


def diffused(key: int, noise: bool = True) -> Setup:
    """The motor's loss under constant noise, where most of it pushes one way around."""
    law = CircleNoise(constant_noise(key)) if noise else None
    pushed = float(np.arctan2(*MOTOR.phases[0][::-1])) - np.pi / 2
    phi = pushed + generator(key, "zeroloss diffusion").uniform(-0.5, 0.5)
    return motors(key, law, STEPS, DIFFUSION_LR, phi, CROWD)


PARTS = ("tangent", "normal", "mixed")


def generator_at(
    phi: float, sigma: np.ndarray, factors: Mapping[str, float]
) -> tuple[complex, float]:
    """Drift and variance of Y = x + iy on the motor's circle: ½∂²Φ[Σ], each part times a factor."""
    x = MOTOR.point(phi)
    bend = manifold.second_derivative(x, sigma, residual=MOTOR.residual)
    drift = np.zeros(MOTOR.D)
    for name in PARTS:
        drift = drift + factors.get(name, 1.0) * np.asarray(getattr(bend, name)) / 2
    along = np.concatenate([[-np.sin(phi), np.cos(phi)], np.zeros(MOTOR.D - 2)])
    return complex(drift[0], drift[1]), float(along @ sigma @ along)


def kolmogorov(
    sigma: np.ndarray, phi: float, time: float, factors: Mapping[str, float] | None = None
) -> complex:
    """E Y(t) of the limiting diffusion in the plane of the circle, by a Fourier series.

    u = E[Y(t) | Y(0)] solves u' = Lu, and L Y^k = k Y^{k−1} D + ½k(k−1) Y^{k−2} (dY)²/dt with the
    drift D in the plane, its normal part included, and (dY)² = −a Y² dt.
    """
    grid = 2 * np.pi * np.arange(MODES) / MODES
    at = [generator_at(g, sigma, factors or {}) for g in grid]
    D = np.array([drift for drift, _ in at])
    a = np.array([variance for _, variance in at])
    k = np.fft.fftfreq(MODES, 1 / MODES)
    Y = np.exp(1j * grid)
    waves = np.exp(1j * np.outer(grid, k))
    generator_ = waves * (k * (D / Y)[:, None] - 0.5 * k * (k - 1) * a[:, None])
    operator = waves.conj().T / MODES @ generator_
    start = (k == 1).astype(complex)
    return complex(np.exp(1j * k * phi) @ scipy.linalg.expm(time * operator) @ start)


def predict_diffusion(setup: Setup, **factors: float) -> Claims:
    """E(cos φ, sin φ) at the end; each of the drift's parts times a factor."""
    law = circle_noise(setup)
    x = np.asarray(setup.params["x"])[0]
    factor = constant_noise(setup.key) if law is None else np.asarray(law.matrix)
    sigma = factor @ factor.T
    mean = kolmogorov(sigma, float(np.arctan2(x[1], x[0])), end_time(setup), factors)
    return {"mean": equals([mean.real, mean.imag], scale=1.0)}


def measure_diffusion(runs: Mapping[str, Run]) -> Measurements:
    """The means over the copies, extrapolated to lr = 0."""
    coarse, fine = (_mean(runs[name]) for name in ("run", "half"))
    return {"mean": extrapolated(coarse, fine)}


def _mean(run: Run) -> Measured:
    phi = angles(run)[-1]
    return steadied(np.stack([np.cos(phi), np.sin(phi)]), run)


def _has_constant_noise(setup: Setup) -> bool:
    noise = circle_noise(setup)
    return noise is not None and float(noise.phase) == 0


THM4_6 = Theorem(
    "zeroloss.thm4.6",
    r"After $k = t/\eta^2$ steps SGD with gradient noise of covariance "
    r"$\Sigma = \sigma\sigma^\top$ is, as $\eta \to 0$, distributed as $Y(t)$ with "
    r"$dY = P\sigma\,dW + \frac{1}{2}\partial^2\Phi(Y)[\Sigma]\,dt$ and $Y(0) = \Phi(x(0))$; "
    r"up to $O(\eta)$ for smooth functions.",
    hypotheses=[
        of_net(MOTORS, "the motor"),
        kind("the noise is constant", _has_constant_noise),
        *common.plain(),
        small_step(common.learning_rate, 2.0),
    ],
    predict=predict_diffusion,
    measure=measure_diffusion,
    tolerance=0.002,
    instances=diffused,
    controls=[
        Control("the noise is constant", lambda key: diffused(key, noise=False)),
        Control(
            "without the half in front of the drift",
            diffused,
            lambda s: predict_diffusion(s, tangent=2.0, normal=2.0, mixed=2.0),
            formula=True,
        ),
    ],
    runs=two_steps,
    terms={
        f"the {name} part of the drift": lambda s, name=name: predict_diffusion(s, **{name: 0.0})
        for name in PARTS
    },
    errata=(
        Erratum(
            "Theorem 4.6",
            "$Y(0) = x(0)$",
            r"$Y(0) = \Phi(x(0))$",
            "misprint",
            quote="global solution Y with Y(0) = x(0) and Y never leaves U",
            note="Theorem B.9 has it right.",
        ),
        Erratum(
            "Eq (10)",
            r"$+\frac{1}{2}H^+T[\Sigma_\parallel]$ and "
            r"$+P\,T[H^+\Sigma_{\perp\parallel}]$, with a minus before the normal part "
            "only",
            "all three parts with a minus, as Lemma C.4 gives them",
            "misprint",
            evidence=printed_9,
            quote="dY(t) = ∑2(Y)dW(t) + 2V2L(Y户∂2(VL)(Y) [∑k (Y)] dt",
            note="The signs of Eq (9).",
        ),
        Erratum(
            "Eq (10), mixed part",
            r"a factor $\frac{1}{2}$ before the mixed part",
            "1 where (9) has 2",
            "reading",
            quote="+ 2 ∂ Φ(Y) ( ∂2(VL)(Y) [v2 L(Y 户 ∑⊥,k(Y)]",
            note="Fractions in this text lost their parts: check against the PDF.",
        ),
        Erratum(
            "Theorem 4.6, proof",
            r"drift $\partial^2\Phi[\Sigma]$",
            r"drift $\frac{1}{2}\partial^2\Phi[\Sigma]$",
            "reading",
            quote="dY(t) = ∑j∕2dW (t) + ∂ 2Φ(Y (t))[Σ(Y (t))]dt",
            note="The ½ may have been lost on the way to the text; the next line has it. "
            "Check against the PDF.",
        ),
    ),
    paper=OF_COPIES,
    slow=True,
    title="the limiting diffusion",
)


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
    a = float(CURVE.a)
    b = float(CURVE.b)
    polar = np.arctan2(x[:, 1], x[:, 0])
    on = CURVE.point(np.arctan2(x[:, 1] / b, x[:, 0] / a))
    weight = 1 + 0.6 * np.tanh(on[:, 0]) + 0.3 * on[:, 1] ** 2
    steep = weight * 4 * (on[:, 0] ** 2 / a**4 + on[:, 1] ** 2 / b**4)
    return np.stack([np.cos(polar), np.cos(2 * polar), np.log(steep)])


def predict_moments(setup: Setup) -> Claims:
    """Means under |H|₊^{−1/2} times arc length."""
    phi, weight = law()
    means = features(CURVE.point(phi)) @ weight
    return {"means": equals(means, scale=1.0)}


def measure_moments(runs: Mapping[str, Run]) -> Measurements:
    """Means over the copies at the end, extrapolated to lr = 0."""
    coarse, fine = (_moments(runs[name]) for name in ("run", "half"))
    return {"means": extrapolated(coarse, fine)}


def _moments(run: Run) -> Measured:
    """Copies start evenly spread over the law, not at random: what that explains is no chance."""
    x = np.asarray(setup_of(run).params["x"])
    phi = np.arctan2(x[:, 1] / float(CURVE.b), x[:, 0] / float(CURVE.a))
    waves = [wave(k * phi) for k in (1, 2, 3) for wave in (np.cos, np.sin)]
    return steadied(features(np.asarray(run.final["x"])), run, waves)


def _has_isotropic_noise(setup: Setup) -> bool:
    noise = circle_noise(setup)
    return noise is not None and np.array_equal(noise.matrix, np.eye(2))


STATIONARY = Theorem(
    "zeroloss.cor5.1.stationary",
    r"On a compact manifold isotropic noise has the stationary density $1/\sqrt{|H|_+}$ with "
    r"respect to volume.",
    hypotheses=[
        of_net(CURVES, "the ellipse"),
        kind("the noise is isotropic", _has_isotropic_noise),
        *common.plain(),
        small_step(common.learning_rate, 2.0),
    ],
    predict=predict_moments,
    measure=measure_moments,
    tolerance=0.002,
    runs=two_steps,
    instances=ellipses,
    controls=[Control("the noise is isotropic", lambda key: ellipses(key, still=True))],
    slow=True,
    paper=OF_COPIES,
    title="stationary density of isotropic noise",
    own=True,
)


THEOREMS = (THM4_6, STATIONARY)
