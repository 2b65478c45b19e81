"""What the layers look like when the predictor is β: singular values, Gram matrices and α.

Under $I_γ$ the predictor alone determines them, at every time and for any data (Corollary 3.1,
Lemma C.10), because the imbalance W1ᵀW1 − W2W2ᵀ stays 2γPᵀP.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ._scalars import above, below, slope
from ._svd import matrix, positive, svd


class LayerValues(NamedTuple):
    """Singular values of the two layers, largest first."""

    W1: np.ndarray
    W2: np.ndarray


class Gram(NamedTuple):
    """M = W1 W1ᵀ (d, d) and N = W2ᵀ W2 (k, k)."""

    M: np.ndarray
    N: np.ndarray


def limit_singular_values(beta: ArrayLike, gamma: float, d: int) -> LayerValues:
    r"""Singular values of the layers: $(\sqrt{\sigma_i^2+\gamma^2} \pm \gamma)^{1/2}$ (Cor 3.1).

    They hold at every time with the predictor of that time, not only in the limit. The second
    layer's are computed as σ_i(β)/σ_i(W1), because the difference loses every digit for σ ≪ γ.

    Args:
        beta: the predictor, (d, k), or (d,) with one output.
        gamma: the scale of the init, at least 0; 0 is the balanced net.
        d: the number of inputs. A (m, k) matrix with m < d rows is a predictor in orthonormal
            coordinates of a subspace, for example of the row space of the data.

    Returns:
        Of W1, d values, of which max(d − k, 0) are √(2γ); of W2, min(d, k) values, the others
        are zero.
    """
    gamma = checks.number("gamma", gamma, at_least=0)
    d = checks.integer("d", d, at_least=1)
    shape = np.shape(beta)
    predictor = matrix("beta", beta)
    if len(predictor) > d or (len(shape) == 1 and len(predictor) != d):
        raise ValueError(
            f"beta must have shape ({d}, any) or ({d},) for d = {d}, got {shape} "
            "(singular values alone: pass np.diag of them)"
        )
    sigma = np.zeros(d)
    found = svd(predictor).s
    sigma[: len(found)] = found
    first = np.sqrt(above(sigma, gamma))
    second = np.divide(sigma, first, out=np.zeros(d), where=first > 0)
    return LayerValues(first, second[: min(d, predictor.shape[1])])


def limit_gram(beta: ArrayLike, gamma: float) -> Gram:
    r"""$W_1W_1^T = \gamma I + \sqrt{\gamma^2 I + \beta\beta^T}$ and its counterpart W2ᵀ W2.

    Both hold at every time of a flow from $I_γ$.

    Args:
        beta: the predictor, (d, k), or (d,) with one output.
        gamma: the scale of the init, at least 0.
    """
    gamma = checks.number("gamma", gamma, at_least=0)
    predictor = matrix("beta", beta)
    U, sigma, Vt = svd(predictor)
    grown = below(sigma, gamma)
    return Gram(2 * gamma * np.eye(len(predictor)) + (U * grown) @ U.T, (Vt.T * grown) @ Vt)


def alpha_of(beta: ArrayLike, gamma: float) -> np.ndarray:
    r"""The dual variable $\alpha = (W_1W_1^T)^{-1}\beta$, which never leaves span Xᵀ (Lemma 3.3).

    It is the gradient of the reduced spectral potential at β; its singular values are below 1.

    Args:
        beta: the predictor, (d, k), or (d,) with one output.
        gamma: the scale of the init, at least 0.
    """
    gamma = checks.number("gamma", gamma, at_least=0)
    U, sigma, Vt = svd(matrix("beta", beta))
    return ((U * slope(sigma, gamma)) @ Vt).reshape(np.shape(beta))


def beta_of(alpha: ArrayLike, gamma: float) -> np.ndarray:
    r"""Back from the dual variable: $\beta = 2\gamma(I - \alpha\alpha^T)^{-1}\alpha$.

    The way back is ill-conditioned where γ ≪ ‖β‖: 1 − σ(α) is about γ/σ(β).

    Args:
        alpha: (d, k) or (d,), with singular values below 1.
        gamma: the scale of the init, above 0.
    """
    gamma = positive(gamma)
    U, a, Vt = svd(matrix("alpha", alpha))
    if a[0] >= 1:
        raise ValueError(f"alpha must have singular values below 1, got {a[0]:.17g}")
    sigma = 2 * gamma * a / ((1 - a) * (1 + a))
    return ((U * sigma) @ Vt).reshape(np.shape(alpha))
