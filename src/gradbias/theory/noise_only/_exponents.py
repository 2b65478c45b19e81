"""Growth exponents of the noise-only process for X = I: almost surely, and of moments.

A column (w_j, a_j) moves by Brownian boosts of ℝ^{d,1}, all columns by the same ones. The rapidity
η of the plane spanned by p of them is a diffusion on its own, with the stationary density
π ∝ sinh^{p−1}η cosh^{d−p}η exp(−(d−1)sinh²η/2), and the volume grows at the rate
½((d−1)sinh²η − p).
"""

import numpy as np
import scipy.linalg

from ...numerics import checks

SIZE = 32  # orthogonal polynomials; 12 give 1e-14 up to d = 50 and q = 7


def noise_only_lyapunov(d: int) -> np.ndarray:
    r"""All d + 1 Lyapunov exponents of the noise-only process, largest first.

    The sum of the first p is $\tfrac12((d-1)E[x^2]-p)$ for $x = \sinh\eta$ under the stationary
    law; the sum of all is −d. The top one is positive for d ≥ 3 only, the second for d ≥ 6.

    Args:
        d: the number of inputs, at least 1.
    """
    d = checks.integer("d", d, at_least=1)
    if d == 1:  # w ± a are geometric Brownian motions
        return np.array([-0.5, -0.5])
    sums = [0.0]
    for p in range(1, d + 1):
        x2, log = _stationary(d, p)
        mass = np.exp(log - log.max())
        sums.append(((d - 1) * float(mass @ x2 / mass.sum()) - p) / 2)
    return np.diff([*sums, -float(d)])


def moment_exponent(d: int, p: int, q: float) -> float:
    r"""The rate of $E|w_1\wedge\dots\wedge w_p|^q$, with (w_j, a_j) as vectors of ℝ^{d+1}.

    The principal eigenvalue of ½f″ + ½(log π)′f′ + (q/2)((d−1)sinh²η − p)f. q = 2 gives √d for
    p = 1 and √(2d−1) − 1 for p = 2; the slope at q = 0 is the sum of the first p Lyapunov
    exponents.

    Args:
        d: the number of inputs, at least 2.
        p: how many columns, from 1 to d.
        q: the power, any number.
    """
    d = checks.integer("d", d, at_least=2)
    p = checks.integer("p", p, at_least=1)
    if p > d:
        raise ValueError(f"p must be at most d = {d}, got {p}")
    q = checks.number("q", q)
    x2, log = _stationary(d, p, q)
    # f = cosh^q η · h(tanh² η): h tends to a constant, and polynomials approach it quickly.
    root = np.exp((log - log.max()) / 2)
    basis, slopes = _orthonormal(x2 / (1 + x2), root)
    tanh = np.sqrt(x2 / (1 + x2))
    chain = 2 * tanh / (1 + x2)  # d(tanh² η)/dη
    velocity = slopes * chain + q * tanh * basis  # f'/cosh^q η
    energy = q * ((d - 1) * x2 - p) * basis
    form = (basis @ energy.T - velocity @ velocity.T) / 2
    return float(scipy.linalg.eigvalsh((form + form.T) / 2)[-1])


def _stationary(d: int, p: int, q: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """x² = sinh² η on a grid in log x, and there the log of the weight cosh^{2q} η π dη.

    The trapezoidal rule converges exponentially on it; the step follows the width ~ d^{-1/2} of
    the density, and at both ends less than 1e-17 is left out.
    """
    y = np.arange(-40.0, np.log(12 + 3 * np.sqrt(abs(q))), 0.04 / np.sqrt(d))
    x2 = np.exp(2 * y)
    return x2, p * y + (q + (d - 1 - p) / 2) * np.log1p(x2) - (d - 1) * x2 / 2


def _orthonormal(s: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Polynomials in s, orthonormal under the weight root², times root; and their derivatives."""
    basis, slopes = np.zeros((2, SIZE, len(s)))
    basis[0] = root / np.linalg.norm(root)
    for i in range(1, SIZE):
        # Multiplied by s and freed from all earlier ones, twice, which keeps them orthogonal.
        new = s * basis[i - 1]
        slope = s * slopes[i - 1] + basis[i - 1]
        for _ in range(2):
            overlap = basis[:i] @ new
            new = new - overlap @ basis[:i]
            slope = slope - overlap @ slopes[:i]
        size = np.linalg.norm(new)
        basis[i] = new / size
        slopes[i] = slope / size
    return basis, slopes
