"""The distribution of the bias: what gradient flow never looked at is still as random as it was."""

import numpy as np

from ...numerics import checks
from .._problem import LeastSquares, Params, layers_of
from ._chi_square import ChiSquareMixture
from ._coordinates import split


def bias_law(problem: LeastSquares, params_end: Params, alpha: float) -> ChiSquareMixture:
    r"""The exact law of $\|\Theta(\infty) - \hat\Theta\|_F^2$ for a Gaussian init, given V(∞).

    U2(0), with entries N(0, h^(−2α)), takes no part in the motion, so it is independent of the
    end: given V(∞) with singular values s_j, the squared distance is
    $h^{-2\alpha}\sum_j s_j^2\,\chi^2_{D-r}$. True for gradient descent too, at every step.

    Args:
        problem: Regression or Population.
        params_end: W1 (D, h) and W2 (h, m) at the end of a run; only W2 is used.
        alpha: entries of the init have variance h^(−2α).
    """
    _, W2 = layers_of(problem, params_end)
    alpha = checks.number("alpha", alpha)
    strengths = np.linalg.svd(W2, compute_uv=False) ** 2
    return ChiSquareMixture(
        float(len(W2)) ** (-2 * alpha) * strengths, problem.d - split(problem).rank
    )
