r"""Label noise without its drift: $dW = X^T dB\,a^T$, $da = W^T X^T dB$ (Itô), and its time scales.

W is (d, width), a (width,), B a Brownian motion in ℝⁿ, A = XᵀX. This is what label noise of
standard deviation δ (on L = ½‖XWa − y‖²) does to a two-layer net with one output apart from the
gradient, after time is measured in units of (lr·δ)² per step.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.types import Number
from ...numerics.units import exponent, times_power_of_two


class NoiseMoments(NamedTuple):
    """E[WWᵀ], of shape t.shape + (d, d), and E|a|², of shape t.shape."""

    WWt: np.ndarray
    a2: np.ndarray


def noise_only_moments(X: ArrayLike, W0: ArrayLike, a0: ArrayLike, t: ArrayLike) -> NoiseMoments:
    """Second moments of the noise-only process, exactly (Prop 4.1a, for any X).

    P = E[WWᵀ] and q = E|a|² obey P′ = Aq, q′ = tr(AP), so with κ = ‖A‖_F
    q = q₀ cosh κt + tr(AP₀) sinh(κt)/κ and P = P₀ + A∫q. For one column w_j and the number a_j,
    pass these alone. The tails are heavy: 1e5 paths still underestimate the moments at t = 2.

    Args:
        X: (n, d) data.
        W0: (d, width).
        a0: (width,).
        t: times, at least 0, of any shape.
    """
    inputs = checks.array("X", X, ndim=(2,))
    W = checks.array("W0", W0, shape=(inputs.shape[1], None))
    a = checks.array("a0", a0, shape=(W.shape[1],))
    times = _times(t)
    # In units of X and of the layers: κ is of fourth order in X, and a sum of all the orders.
    x = exponent(inputs) or 0
    p = exponent(W, a) or 0
    inputs = times_power_of_two(inputs, -x)
    times = times_power_of_two(times, 2 * x)
    W = times_power_of_two(W, -p)
    a = times_power_of_two(a, -p)
    A = inputs.T @ inputs
    kappa = float(np.linalg.norm(A))
    seen = float(np.sum((inputs @ W) ** 2))
    start = float(a @ a)
    with np.errstate(over="ignore"):  # the moments grow without bound
        if kappa == 0:
            a2 = np.full(times.shape, start)
            area = start * times
        else:
            a2 = _of(start, np.cosh(kappa * times)) + _of(seen, np.sinh(kappa * times) / kappa)
            bend = 2 * (np.sinh(kappa * times / 2) / kappa) ** 2  # (cosh κt − 1)/κ²
            area = _of(start, np.sinh(kappa * times) / kappa) + _of(seen, bend)
        moments = W @ W.T + np.multiply.outer(area, A)
    return NoiseMoments(
        times_power_of_two(moments, 2 * p), np.asarray(times_power_of_two(a2, 2 * p))
    )


class CommutatorMoments(NamedTuple):
    """E Σ_i (z_i ∧ a)_kl² and E Σ_{i<j} (z_i ∧ z_j)_kl², of shape t.shape + (width, width)."""

    P: np.ndarray
    Q: np.ndarray


def commutator_moments(W0: ArrayLike, a0: ArrayLike, t: ArrayLike) -> CommutatorMoments:
    r"""Second moments of the commutators of the rows z_i of W with a, for X = I.

    $P' = -2P + 2Q$ and $Q' = (d-1)P$ for each pair (k, l) of hidden units, so both grow like
    $e^{(\sqrt{2d-1}-1)t}$ for d ≥ 2: the mean commutator does not vanish (Prop 4.1c). From
    W = I and a = 0, $P = 2e^{-t}\sinh(\sqrt{2d-1}\,t)/\sqrt{2d-1}$ for every pair.

    Args:
        W0: (d, width).
        a0: (width,).
        t: times, at least 0, of any shape.
    """
    W = checks.array("W0", W0, ndim=(2,))
    a = checks.array("a0", a0, shape=(W.shape[1],))
    times = _times(t)[..., None, None]
    p = exponent(W, a) or 0  # moments of fourth order: in units of the layers
    W = times_power_of_two(W, -p)
    a = times_power_of_two(a, -p)
    G = W.T @ W
    size = np.diag(G)
    P0 = np.add.outer(np.zeros(len(a)), a**2) * size[:, None]
    P0 = P0 + P0.T - 2 * G * np.outer(a, a)
    Q0 = np.outer(size, size) - G**2
    root = np.sqrt(2 * len(W) - 1)
    with np.errstate(over="ignore"):
        rise = np.exp((root - 1) * times) / 2
        fall = np.exp(-(root + 1) * times) / 2
        cosh = rise + fall
        sinh = (rise - fall) / root
        P = cosh * P0 + sinh * (2 * Q0 - P0)
        Q = cosh * Q0 + sinh * ((len(W) - 1) * P0 + Q0)
    return CommutatorMoments(times_power_of_two(P, 4 * p), times_power_of_two(Q, 4 * p))


class NoiseScale(NamedTuple):
    """Label noise as a diffusion, in its three clocks.

    Attributes:
        flow: the noise in front of dB when time is lr·steps: √lr·δ.
        step: the noise in front of dB when time is steps, beside a drift of lr: lr·δ.
        unit_time: how much time of the noise-only process one step takes: (lr·δ)².
    """

    flow: float
    step: float
    unit_time: float


def label_noise_sde_scale(lr: float, delta: float) -> NoiseScale:
    """The strength of label noise in the SDE of label-noise GD (App. D), for L = ½‖Xβ − y‖².

    Args:
        lr: the step size, above 0.
        delta: the standard deviation of the label noise, at least 0.
    """
    lr = checks.number("lr", lr, above=0)
    delta = checks.number("delta", delta, at_least=0)
    step = lr * delta
    return NoiseScale(math.sqrt(lr) * delta, step, step * step)


class LabelNoiseLimit(NamedTuple):
    """The flattest layers that make a predictor.

    Attributes:
        W1: singular values of the part of W1 in the row space of the data, at most min(d, k).
        W2: singular values of W2, as many.
        M: (d, d), that part times its transpose.
        N: (k, k), W2ᵀ W2.
        trace: the trace of the Hessian of L = ½‖Xβ − Y‖² there.
    """

    W1: np.ndarray
    W2: np.ndarray
    M: np.ndarray
    N: np.ndarray
    trace: float


def label_noise_rank_one_limit(beta: ArrayLike, X: ArrayLike) -> LabelNoiseLimit:
    r"""Where small label noise drives a two-layer net along its interpolators.

    It descends tr H = k tr(A W1W1ᵀ) + tr(A)‖W2‖², whose least value is 2√(k tr A)·‖A^{½}β‖_*. With
    one output the layers have rank one; for A = I, $\sigma_1(W_1) = d^{1/4}|\beta|^{1/2}$ and
    $|a| = d^{-1/4}|\beta|^{1/2}$. The part of W1 outside of the row space never moves and is left
    out.

    Args:
        beta: the predictor, (d, k), or (d,) with one output; its part in the row space counts.
        X: (n, d) data.
    """
    theta = checks.array("beta", beta, ndim=(1, 2))
    inputs = checks.array("X", X, shape=(None, len(theta)))
    theta = theta.reshape(len(theta), -1)
    x = exponent(inputs) or 0
    b = 2 * ((exponent(theta) or 0) // 2)
    inputs = times_power_of_two(inputs, -x)
    theta = times_power_of_two(theta, -b)
    weight = np.linalg.norm(inputs) * np.sqrt(theta.shape[1])  # √(k tr A)
    if not weight:
        raise ValueError("X must not be zero: without data label noise moves nothing")
    U, s, Vt = scipy.linalg.svd(inputs @ theta, full_matrices=False)
    keep = s > s[0] * max(inputs.shape) * np.finfo(np.float64).eps
    U = U[:, keep]
    s = s[keep]
    Vt = Vt[keep]
    second = np.sqrt(weight * s) / np.linalg.norm(inputs)
    W1 = np.linalg.pinv(inputs) @ (U * (s / second))
    values = np.linalg.svd(W1, compute_uv=False)
    trace = times_power_of_two(2 * weight * np.sum(s), 2 * x + b)
    return LabelNoiseLimit(
        times_power_of_two(values, b // 2),
        times_power_of_two(second, b // 2),
        times_power_of_two(W1 @ W1.T, b),
        times_power_of_two((Vt.T * second**2) @ Vt, b),
        float(trace),
    )


def _of(amount: float, growth: Number) -> Number:
    """Their product; nothing stays nothing, also where the growth is beyond float64."""
    return amount * growth if amount else np.zeros_like(growth)


def _times(t: ArrayLike) -> np.ndarray:
    times = checks.array("t", t)
    if np.any(times < 0):
        raise ValueError(f"t must be at least 0, got {times.min()}")
    return times
