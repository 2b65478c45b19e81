"""How fast a charge reaches its equilibrium, and how closely it follows one that moves."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.units import in_own_unit
from .._units import single
from ._fixed_point import fixed_point, spectra


def local_rate(
    mu: ArrayLike, sigma2: ArrayLike, theta2: ArrayLike, kappa: float, weight_decay: float = 0.0
) -> float:
    r"""−(dC/dt)/(C − C*) near the equilibrium, per unit of time t = steps·lr.

    $\kappa\,\mathrm{Tr}[\Sigma^* A^2]/\theta^{*T} A^2 \theta^* + 4\gamma$, for any A. Far away a
    charge with more than ±m in its spectrum can be arbitrarily slower. Convention: κ = lr/S,
    C = θᵀAθ, objective L + γ‖θ‖².

    Args:
        mu: (m,) eigenvalues of A.
        sigma2: (m,) the noise along its eigenvectors, anywhere on the orbit.
        theta2: (m,) the squares (nᵢᵀθ)² there.
        kappa: lr/S.
        weight_decay: γ ≥ 0.
    """
    mu, sigma2, theta2 = spectra(mu, sigma2, theta2)
    lam = fixed_point(mu, sigma2, theta2, kappa, weight_decay)
    if not np.isfinite(lam):
        return float("nan")
    noise = (mu * np.exp(-lam * mu)) ** 2 @ sigma2
    return float(kappa * noise / ((mu * np.exp(lam * mu)) ** 2 @ theta2) + 4 * weight_decay)


def rescaling_rates(
    noise_plus: float, noise_minus: float, theta2_plus: float, theta2_minus: float, kappa: float
) -> tuple[float, float]:
    r"""Bounds on −(dC/dt)/(C − C*) on the whole orbit of a rescaling (μ = ±1), without decay.

    $\kappa s/\max(p, q)$ and $\kappa s/\min(p, q)$ with s = Tr Σ*₊ = Tr Σ*₋, p = ‖θ*₊‖² and
    q = ‖θ*₋‖² at the equilibrium. Corollary B.4 claims such a bound for any A, which is false:
    see `printed`. Convention: κ = lr/S, C = ‖θ₊‖² − ‖θ₋‖².

    Args:
        noise_plus: Tr Σ on the entries that grow, anywhere on the orbit.
        noise_minus: Tr Σ on those that shrink.
        theta2_plus: ‖θ₊‖².
        theta2_minus: ‖θ₋‖².
        kappa: lr/S.
    """
    sigma2 = [noise_plus, noise_minus]
    theta2 = [theta2_plus, theta2_minus]
    lam = fixed_point([1.0, -1.0], sigma2, theta2, kappa)
    s = np.sqrt(noise_plus) * np.sqrt(noise_minus)
    ends = sorted((theta2_plus * np.exp(2 * lam), theta2_minus * np.exp(-2 * lam)))
    return float(kappa * s / ends[1]), float(kappa * s / ends[0])


def pull_bound(mu: ArrayLike, sigma2: ArrayLike, kappa: float) -> tuple[float, float]:
    r"""Lemma B.2: (dC/dt)/λ* and its lower bound $2\kappa\,\mathrm{Tr}[\Sigma^* A_\pm^2]$, γ = 0.

    A₊ is the positive part of A where λ* > 0, the negative one where λ* < 0. Convention: κ = lr/S,
    C = θᵀAθ.

    Args:
        mu: (m,) eigenvalues of A.
        sigma2: (m,) the noise along its eigenvectors.
        kappa: lr/S.
    """
    mu, sigma2 = spectra(mu, sigma2, names=("mu", "sigma2"))
    lam = fixed_point(mu, sigma2, np.zeros_like(mu), kappa)
    if not np.isfinite(lam) or lam == 0:
        return float("nan"), float("nan")
    side = mu * lam > 0
    bound = 2 * kappa * (mu[side] ** 2 * np.exp(-2 * lam * mu[side])) @ sigma2[side]
    return float(kappa * (mu @ sigma2) / lam), float(bound)


def tracking_error(
    rate: float, drift: float, volatility: float, start: float = 0.0, time: float = np.inf
) -> float:
    r"""Lemma B.5, corrected: E(C − C*)² while dC/dt = −c(C − C*) follows a moving C*.

    With dC* = μ dt + s dW and a constant rate c this is exactly
    $(\mu/c)^2 + s^2/2c$ in the end. It is no bound for rates that vary above c: see
    `tracking_bound`.

    Args:
        rate: c.
        drift: μ.
        volatility: s.
        start: C − C* at time 0.
        time: when.
    """
    c, mu, s = _moving(rate, drift, volatility)
    left = np.exp(-c * time)
    mean = -mu / c * (1 - left) + checks.number("start", start) * left
    spread = s / math.sqrt(2 * c)
    return float(mean) * float(mean) + spread * spread * float(1 - left**2)


def tracking_bound(rate: float, drift: float, volatility: float) -> float:
    r"""Where E(C − C*)² ends at most, if −(dC/dt)/(C − C*) ≥ c always, however it varies.

    With m² = E(C − C*)², dm²/dt ≤ −2cm² + 2|μ|m + s², so that
    $m \le (|\mu| + \sqrt{\mu^2 + 2cs^2})/2c$ in the end.

    Args:
        rate: c, the least rate.
        drift: the largest |μ| of dC* = μ dt + s dW.
        volatility: the largest |s|.
    """
    c, mu, s = _moving(rate, drift, volatility)
    end = (abs(mu) + math.hypot(mu, math.sqrt(2 * c) * s)) / (2 * c)
    return end * end


def _moving(rate: float, drift: float, volatility: float) -> tuple[float, float, float]:
    c = checks.number("rate", rate, above=0)
    return c, checks.number("drift", drift), checks.number("volatility", volatility)


class TimeScales(NamedTuple):
    """How long things take, in units of t = steps·lr.

    Attributes:
        fit: 1/curvature, until the loss is small: the fast phase.
        equilibrium: until noise has moved the charges, inversely proportional to κ = lr/S.
        decay: 1/4γ, until weight decay alone has; inf without.
        slow: is `equilibrium` the slow one, so that the charges move along the minima?
    """

    fit: float
    equilibrium: float
    decay: float
    slow: bool


def time_scales(curvature: float, rate: float, weight_decay: float = 0.0) -> TimeScales:
    """The fast and the slow time of training, from the curvature and `local_rate`.

    Convention: κ = lr/S, objective L + γ‖θ‖².

    Args:
        curvature: the least eigenvalue of the Hessian across the manifold of minima.
        rate: of the slowest charge, `local_rate`.
        weight_decay: γ ≥ 0.
    """
    fit = 1 / checks.number("curvature", curvature, above=0)
    rate = checks.number("rate", rate, at_least=0)
    weight_decay = checks.number("weight_decay", weight_decay, at_least=0)
    equilibrium = 1 / rate if rate > 0 else np.inf
    return TimeScales(
        fit, equilibrium, 1 / (4 * weight_decay) if weight_decay > 0 else np.inf, equilibrium > fit
    )


def equilibration_time(sigma_x: ArrayLike, sigma_eps: ArrayLike, kappa: float) -> float:
    r"""How long a factorisation takes to its equilibrium, per e-fold of its slowest mode.

    $1/(4\kappa\,\mathrm{Tr}\Sigma_\varepsilon\,\varphi_{\min})$ in t = steps·lr, with
    φ_min the least variance of the inputs that is not zero: divide by lr for steps. Runs should be
    eight times as long. Convention: κ = lr/S, loss ‖UWx − y‖² without ½.

    Args:
        sigma_x: (d, d) second moment of the inputs.
        sigma_eps: (k, k) covariance of the label noise.
        kappa: lr/S.
    """
    inputs, of_inputs = in_own_unit(checks.array("sigma_x", sigma_x, ndim=(2,)))
    labels, of_labels = in_own_unit(checks.array("sigma_eps", sigma_eps, ndim=(2,)))
    kappa, of_kappa = in_own_unit(checks.number("kappa", kappa, above=0))
    values = np.linalg.eigvalsh(inputs)
    there = values[values > values[-1] * len(values) * np.finfo(float).eps]
    speed = 4 * kappa * float(np.trace(labels)) * (there[0] if len(there) else 0.0)
    time = float(1 / speed) if speed > 0 else math.inf
    unit = of_inputs + of_labels + of_kappa
    return single(time, -unit, "equilibration_time", "sigma_x, sigma_eps and kappa")


def equilibrium_norm(trace: float, norm2: float, kappa: float, weight_decay: float) -> float:
    r"""Eq 24, corrected: the norm at which scale-invariant weights stop growing.

    $d\|\theta\|^2/dt = -4\gamma\|\theta\|^2 + \kappa\,\mathrm{Tr}\Sigma$ and Tr Σ falls as
    1/‖θ‖², so $\|\theta^*\|^4 = \kappa\,\mathrm{Tr}\Sigma(\theta)\,\|\theta\|^2/4\gamma$.
    Convention: κ = lr/S, C = ‖θ‖², objective L + γ‖θ‖².

    Args:
        trace: Tr Σ at θ.
        norm2: ‖θ‖² there.
        kappa: lr/S.
        weight_decay: γ ≥ 0; without decay the norm grows for ever.
    """
    norm2 = checks.number("norm2", norm2, above=0)
    return float(np.sqrt(norm2) * np.exp(fixed_point([1.0], [trace], [norm2], kappa, weight_decay)))
