"""The mean size of a commutator under noise alone, for X = I: what Prop 4.1 (c) says vanishes."""

import numpy as np
import scipy.interpolate
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.units import exponent, times_power_of_two

CELLS = 400  # of the angle; their error of second order is taken out by halving


def commutator_size(W0: ArrayLike, a0: ArrayLike, t: float) -> np.ndarray:
    r"""$E\sqrt{\sum_i(z_i\wedge a)_{kl}^2}$ at time t, (width, width), z_i the rows of W.

    β of this and α of $\sum_{i<j}(z_i\wedge z_j)_{kl}^2$ are a diffusion on their own, driven by
    one Brownian motion: dβ = (−β + α²/2β)dt + α dB, dα = ((d−2)β²/2α)dt + β dB. Means of
    homogeneous functions of both are those of a diffusion of the angle, weighted: a linear
    equation on [0, π/2]. The limit of E β is a constant for d = 2, and β grows for d ≥ 3.

    Args:
        W0: (d, width), at least two inputs.
        a0: (width,).
        t: a time, at least 0.
    """
    W = checks.array("W0", W0, ndim=(2,))
    checks.integer("the number of inputs", len(W), at_least=2)
    a = checks.array("a0", a0, shape=(W.shape[1],))
    t = checks.number("t", t, at_least=0)
    p = exponent(W, a) or 0  # of second order in the layers: in their units
    W = times_power_of_two(W, -p)
    a = times_power_of_two(a, -p)
    e = W[:, :, None] * a - W[:, None, :] * a[:, None]
    G = W.T @ W
    size = np.diag(G)
    beta = np.linalg.norm(e, axis=0)
    alpha = np.sqrt(np.maximum(np.outer(size, size) - G**2, 0.0))
    if t == 0:
        return times_power_of_two(beta, 2 * p)
    angle = np.arctan2(beta, alpha)
    coarse, fine = (_mean(len(W), t, cells, angle) for cells in (CELLS // 2, CELLS))
    return times_power_of_two(np.hypot(alpha, beta) * (4 * fine - coarse) / 3, 2 * p)


def _mean(d: int, t: float, cells: int, angle: np.ndarray) -> np.ndarray:
    """E β over the size at the start, at these angles."""
    h = np.pi / 2 / cells
    phi = h * (np.arange(cells) + 0.5)
    s = np.sin(phi)
    c = np.cos(phi)
    # Half of n² with n = cos 2φ d/dφ + sin 2φ, and the drift of both numbers.
    turn = np.cos(2 * phi)
    grow = np.sin(2 * phi)
    second = turn**2 / 2
    # n²k = cos²2φ k″ + (2 sin 2φ cos 2φ − 2 sin 2φ cos 2φ)k′ + (2cos²2φ + sin²2φ)k
    first = -s * c + c**3 / (2 * s) - (d - 2) * s**3 / (2 * c)
    rate = (turn * 2 * turn + grow**2) / 2 + (d - 5) / 2 * s**2
    up = second / h**2 + first / (2 * h)
    down = second / h**2 - first / (2 * h)
    generator = np.diag(rate - 2 * second / h**2) + np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    # Even about both ends: beyond each is its mirror image.
    generator[0, 0] += down[0]
    generator[-1, -1] += up[-1]
    values = scipy.linalg.expm(t * generator) @ s
    # Through the cells and their mirror images.
    at = np.concatenate([-phi[2::-1], phi, np.pi - phi[:-4:-1]])
    mirrored = np.concatenate([values[2::-1], values, values[:-4:-1]])
    return scipy.interpolate.CubicSpline(at, mirrored)(angle)
