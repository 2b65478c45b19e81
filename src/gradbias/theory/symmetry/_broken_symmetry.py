"""What is left of a symmetry that a small term breaks: the bias of its charge (Eq 20–23)."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.types import PyTree

STATIONARY = 1e-6  # the largest gradient at a minimum, relative to those of single samples


class ApproximateBias(NamedTuple):
    """The stationary state of SGD around a minimum, to first order in κ = lr/S.

    Everything is per unit of κ. Convention: C = θᵀAθ.

    Attributes:
        mean_shift: (D,) E[θ] − θ*.
        covariance: (D, D) of θ.
        charge_bias: E[C] − C*.
        charge: C* at the minimum, which is not per κ.
        trace: Tr[ΣA] there.
    """

    mean_shift: np.ndarray
    covariance: np.ndarray
    charge_bias: float
    charge: float
    trace: float


def approximate_bias(
    loss1: Callable[..., Any],
    loss2: Callable[..., Any],
    zeta: float,
    theta_star: ArrayLike,
    data: ArrayLike | tuple[ArrayLike, ...],
    A: ArrayLike,
) -> ApproximateBias:
    r"""Eq 21–23, corrected: where noise holds a charge that ζ·loss2 pulls to its minimum.

    With H the Hessian of L = E[loss1 + ζ loss2] and Σ the gradient noise at θ*:
    $HQ + QH = \kappa\Sigma$, $m = -\tfrac12 H^{-1} D^3L[Q]$ and
    $E[C] = C^* + 2\theta^{*T}Am + \mathrm{Tr}[AQ]$, to first order in κ. The printed form drops
    the fluctuations Q, which are of the same order. Convention: κ = lr/S, C = θᵀAθ.

    Args:
        loss1: `loss1(theta, *sample)` of one sample, with the symmetry A, in jax.numpy.
        loss2: `loss2(theta, *sample)`, or `loss2(theta)`, without it.
        zeta: ζ > 0.
        theta_star: (D,) a minimum of the total loss, in no direction flat.
        data: an array, or a tuple of arrays whose first axis counts samples.
        A: (D, D) symmetric generator.
    """
    theta = checks.array("theta_star", theta_star, ndim=(1,))
    A = checks.array("A", A, shape=(theta.size, theta.size))
    samples = tuple(np.asarray(a) for a in (data if isinstance(data, tuple) else (data,)))
    zeta = checks.number("zeta", zeta, above=0)
    second = _of_sample(loss2, theta, samples)
    total = _Total(loss1, second, zeta)
    gradients, H = total.at(theta, samples)
    _refuse_slope(gradients)
    values = np.linalg.eigvalsh(H)
    if values[0] <= 1e-12 * abs(values[-1]):
        raise ValueError(
            f"theta_star must be a minimum with curvature in every direction, got a Hessian with "
            f"eigenvalues from {values[0]:.3g} to {values[-1]:.3g}: what loss2 does not bend has "
            "no stationary state"
        )
    centred = gradients - gradients.mean(axis=0)
    sigma = centred.T @ centred / len(centred)
    Q = scipy.linalg.solve_continuous_lyapunov(H, sigma)
    shift = -0.5 * np.linalg.solve(H, total.third(theta, samples, Q))
    bias = 2 * theta @ A @ shift + np.sum(A * Q)
    charge = float(theta @ A @ theta)
    return ApproximateBias(shift, Q, float(bias), charge, float(np.sum(A * sigma)))


class _Total:
    """loss1 + ζ loss2 and its derivatives, in float64 on the host."""

    def __init__(self, loss1: Callable[..., Any], loss2: Callable[..., Any], zeta: float):
        self.sample = lambda theta, *z: loss1(theta, *z) + zeta * loss2(theta, *z)

    def at(self, theta: np.ndarray, samples: PyTree) -> tuple[np.ndarray, np.ndarray]:
        """The gradients of the samples (n, D), and the mean Hessian."""
        import jax

        with jax.enable_x64(True):
            each = jax.vmap(jax.grad(self.sample), (None, *(0 for _ in samples)))
            hessian = jax.hessian(self._mean(samples))
            return np.asarray(jax.jit(each)(theta, *samples)), np.asarray(jax.jit(hessian)(theta))

    def third(self, theta: np.ndarray, samples: PyTree, Q: np.ndarray) -> np.ndarray:
        """D³L[Q], the gradient of tr(HQ)."""
        import jax
        import jax.numpy as jnp

        def bent(point):
            return jnp.sum(jax.hessian(self._mean(samples))(point) * Q)

        with jax.enable_x64(True):
            return np.asarray(jax.jit(jax.grad(bent))(theta))

    def _mean(self, samples: PyTree) -> Callable[[Any], Any]:
        import jax
        import jax.numpy as jnp

        def mean(theta):
            each = jax.vmap(self.sample, (None, *(0 for _ in samples)))(theta, *samples)
            return jnp.mean(each)

        return mean


def _of_sample(loss: Callable[..., Any], theta: np.ndarray, samples: PyTree) -> Callable[..., Any]:
    """A loss that may not look at the sample, as one that takes it."""
    if not callable(loss):
        raise ValueError(f"loss2 must be a function of (theta, *sample), got {loss!r:.80}")
    try:
        inspect.signature(loss).bind(theta, *(array[:1] for array in samples))
    except TypeError:
        return lambda point, *sample: loss(point)
    return loss


def _refuse_slope(gradients: np.ndarray) -> None:
    slope = float(np.linalg.norm(gradients.mean(axis=0)))
    size = float(np.sqrt(np.mean(np.sum(gradients**2, axis=1))))
    if not slope <= STATIONARY * max(size, 1e-300):
        raise ValueError(
            f"theta_star must be a minimum of E[loss1 + zeta·loss2], got a gradient of {slope:.3g} "
            f"(single samples have {size:.3g})"
        )


def approximate_flow(
    theta: ArrayLike,
    A: ArrayLike,
    gradient2: ArrayLike,
    sigma: ArrayLike,
    zeta: float,
    kappa: float,
) -> float:
    r"""Eq 20, corrected: $dC/dt = -2\zeta\,\nabla\ell_2^T A\theta + \kappa\,\mathrm{Tr}[\Sigma A]$.

    Convention: κ = lr/S, C = θᵀAθ.

    Args:
        theta: (D,) a point.
        A: (D, D) generator of the symmetry of loss1.
        gradient2: (D,) the mean gradient of loss2 there.
        sigma: (D, D) gradient noise there.
        zeta: ζ.
        kappa: lr/S.
    """
    theta = checks.array("theta", theta, ndim=(1,))
    D = theta.size
    A = checks.array("A", A, shape=(D, D))
    sigma = checks.array("sigma", sigma, shape=(D, D))
    slope = checks.array("gradient2", gradient2, shape=(D,)) @ A @ theta
    return float(kappa * np.sum(A * sigma) - 2 * checks.number("zeta", zeta, at_least=0) * slope)
