r"""The stochastic differential equation of SGD on a rank-1 net, as its predictor sees it.

The parameters follow $dp = -J^T(\nabla L\,dt - G\,dB)$ with J the derivative of θ = ξ·v1 in p and
G the noise of the gradient in the predictor; θ then follows by Itô's formula, from any start.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...noise import Minibatch
from ...numerics import checks
from ...numerics.linalg import norm
from ...problems import Regression
from .._problem import finite_data, one_output, predictor
from .._units import PARAMETER, PREDICTOR, TIME, homogeneous
from ..potentials._depth import checked_depth
from ._any_start import Rank1Params, rank1_params

# dB has the unit of √t.
_DEGREES = {
    "drift_gradient": PREDICTOR - TIME,
    "drift_ito": PREDICTOR - TIME,
    "diffusion": PREDICTOR - 0.5 * TIME,
    "gap_drift": 2 * PARAMETER - TIME,
}


class SdeCoefficients(NamedTuple):
    r"""$d\theta = (\text{drift\_gradient} + \text{drift\_ito})\,dt + \text{diffusion}\,dB$.

    Attributes:
        drift_gradient: (d,) as under gradient flow.
        drift_ito: (d,) what the curvature of θ in the parameters makes of the noise.
        diffusion: (d, n), for a Brownian motion of one number for each sample.
        gap_drift: (L − 1,) dδ_k/dt of the gaps δ_k = ‖v1‖² − ‖u[k]‖²; the gradient does not move
            them, and they have no Brownian part.
    """

    drift_gradient: np.ndarray
    drift_ito: np.ndarray
    diffusion: np.ndarray
    gap_drift: np.ndarray


@homogeneous(_DEGREES, lr=TIME)
def sde_coefficients(
    problem: Regression,
    params: Mapping[str, ArrayLike],
    lr: float,
    batch_size: int,
    noise: Literal["isotropic", "sampling"] = "isotropic",
    replace: bool = False,
) -> SdeCoefficients:
    r"""Lemma 3, corrected and from any start: how the predictor of a rank-1 net diffuses under SGD.

    With M = GGᵀ, $\Phi = \sum_k (\xi/\omega_k)^2(\|u_k\|^2+\|v_{k+1}\|^2)$ and Ψ the second
    derivative of ξ: drift $-(\xi^2 I + \Phi v_1v_1^T)\nabla L$, diffusion
    $(\xi^2 I + \Phi v_1v_1^T)G$, Itô's drift $\tfrac12\Psi(v_1^TMv_1)v_1 + \Phi\xi Mv_1$, and
    $\dot\delta_k = \xi^2\mathrm{tr}M - (\xi/\omega_k)^2\|v_{k+1}\|^2\,v_1^TMv_1$. Time is that of
    gradient flow, one step is lr.

    Args:
        problem: Regression with k = 1; its weight is 1/n in the paper.
        params: v1, u and v of a `Rank1` net.
        lr: the learning rate.
        batch_size: b, rows in a step.
        noise: "isotropic" gives every residual the same noise, of variance mean(r²)/(nb), as the
            paper does; "sampling" is the covariance of minibatches.
        replace: for "sampling": may a row be drawn twice?
    """
    data = _regression(problem, "sde_coefficients")
    net = rank1_params(params, data.d)
    found = _products(net)
    slope, G = _gradient(data, found.xi * net.v1, lr, batch_size, noise, replace)

    def pulled(vectors: np.ndarray) -> np.ndarray:
        return found.xi**2 * vectors + found.phi * np.multiply.outer(net.v1, net.v1 @ vectors)

    h = net.v1 @ G
    along = float(h @ h)
    ito = 0.5 * found.psi * along * net.v1 + found.phi * found.xi * (G @ h)
    gaps = found.xi**2 * float(np.sum(G * G)) - found.rest**2 * np.sum(net.v**2, axis=1) * along
    return SdeCoefficients(-pulled(slope), ito, pulled(G), gaps)


class BalancedSde(NamedTuple):
    """`SdeCoefficients` of a balanced net, from its predictor; one gap for all layers."""

    drift_gradient: np.ndarray
    drift_ito: np.ndarray
    diffusion: np.ndarray
    gap_drift: float


@homogeneous(_DEGREES, by="theta", theta=PREDICTOR, lr=TIME)
def balanced_sde(
    problem: Regression, theta: ArrayLike, depth: int, lr: float, batch_size: int = 1
) -> BalancedSde:
    r"""Lemma 3 in closed form: the equation of SGD at an instant when the net is balanced.

    $d\theta = -\|\theta\|^{2\lambda}H\nabla L\,dt + \|\theta\|^{2\lambda}HG\,dB
    + (N-1)\|\theta\|^{2-4/N}[I+\tfrac{N-2}{2}\Pi]M\theta\,dt$ with $\lambda = 1-1/N$,
    $\Pi = \theta\theta^T/\|\theta\|^2$, $H = I+(N-1)\Pi$ and $M = GG^T$ of the isotropic noise.
    The gap leaves zero at once, so that it is an equation of an instant and not of a path.

    Args:
        problem: Regression with k = 1.
        theta: (d,), not zero.
        depth: N, the number of factors; 2L − 1 for a rank-1 net of L layers.
        lr: the learning rate.
        batch_size: b, rows in a step.
    """
    data = _regression(problem, "balanced_sde")
    N = checked_depth(depth, finite=True)
    point = predictor("theta", theta, data)
    size = norm(point)
    if size == 0:
        raise ValueError("theta must not be zero: balanced layers are then all zero, a saddle")
    slope, G = _gradient(data, point, lr, batch_size, "isotropic", False)
    unit = point / size
    scale = size ** (2 - 2 / N)

    def pulled(vectors: np.ndarray) -> np.ndarray:
        return scale * (vectors + (N - 1) * np.multiply.outer(unit, unit @ vectors))

    pushed = G @ (G.T @ point)
    ito = pushed + (N - 2) / 2 * unit * (unit @ pushed)
    across = float(np.sum(G * G) - np.sum((unit @ G) ** 2))
    drift = (N - 1) * size ** (2 - 4 / N) * ito
    return BalancedSde(-pulled(slope), drift, pulled(G), scale * across)


def _regression(problem: Regression, what: str) -> Regression:
    one_output(problem, what)
    return finite_data(problem, what)


def _gradient(
    problem: Regression, theta: np.ndarray, lr: float, batch_size: int, noise: str, replace: bool
) -> tuple[np.ndarray, np.ndarray]:
    """∇L in the predictor (d,), and √lr times a root (d, n) of the covariance of its noise."""
    lr = checks.number("lr", lr, above=0)
    X = np.asarray(problem.X)
    weight = float(problem.weight)
    residual = X @ theta - np.ravel(problem.labels)
    root = _root(
        residual, batch_size, checks.one_of("noise", noise, ("isotropic", "sampling")), replace
    )
    return 2 * weight * (X.T @ residual), np.sqrt(lr) * 2 * weight * problem.n * (X.T @ root)


class _Products(NamedTuple):
    """ξ, ξ/ω_k without dividing, and the derivatives Φ and Ψ of ξ along the noise."""

    xi: float
    rest: np.ndarray
    phi: float
    psi: float


def _products(net: Rank1Params) -> _Products:
    omega = np.sum(net.u * net.v, axis=1)
    pairs = range(len(omega))
    rest = np.array([np.prod(np.delete(omega, k)) for k in pairs])
    norms = np.sum(net.u**2 + net.v**2, axis=1)
    xi = float(np.prod(omega))
    speeds = rest * norms  # of ω_k, along a unit of v1·G
    psi = 2 * xi * float(rest @ rest)
    for k in pairs:
        for m in pairs:
            if k != m:
                psi += float(np.prod(np.delete(omega, [k, m]))) * speeds[k] * speeds[m]
    return _Products(xi, rest, float((rest**2) @ norms), psi)


def _root(residual: np.ndarray, batch_size: int, noise: str, replace: bool) -> np.ndarray:
    """K^½, (n, n), of the noise of the mean residual vector."""
    n = len(residual)
    b = checks.integer("batch_size", batch_size, at_least=1)
    if noise == "isotropic":
        return np.sqrt(float(residual @ residual) / n / (n * b)) * np.eye(n)
    law = Minibatch(b, replace)
    if not replace and b > n:
        raise ValueError(f"batch_size must be at most the {n} samples without replacement, got {b}")
    variance = float(law.compact_moments(n)[0])
    # Cov = a/n²·(D − rrᵀ/n) with D = diag(r²): its root from D^½(I − 11ᵀ/n).
    centred = np.eye(n) - 1 / n
    return np.sqrt(variance) / n * (residual[:, None] * centred)
