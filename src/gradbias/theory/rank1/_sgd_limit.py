"""Where SGD ends on a balanced net: the limit of the flow, with the gap that its noise makes."""

import numpy as np
from numpy.typing import ArrayLike

from ...noise import Minibatch
from ...numerics import checks
from ...problems import Regression
from .._problem import SingularBasis, finite_data, one_output, singular_basis
from .._units import PARAMETER, PREDICTOR, TIME, homogeneous
from ._balanced_limit import BalancedLimit, balanced_limit
from ._gap import GradientMoments, MomentsOf, final_gap

FITS = 1e-20  # of the loss at zero: a least loss below this is rounding


@homogeneous(
    {"theta": PREDICTOR, "s": PARAMETER, "distance": PREDICTOR, "gap": 2 * PARAMETER},
    by="theta0",
    theta0=PREDICTOR,
    lr=TIME,
)
def sgd_limit(
    problem: Regression,
    theta0: ArrayLike,
    depth: int,
    lr: float,
    batch_size: int,
    replace: bool = False,
    momentum: float = 0.0,
) -> BalancedLimit:
    r"""The end of SGD on a balanced net, in the mean over its draws, without running it.

    $\dot\delta = \mathrm{lr}\,\xi^2\,(\mathrm{tr}\,E[gg^T] - v_1^T E[gg^T]\,v_1/s^2)$ along
    gradient flow, where g is the minibatch gradient in the predictor and $E[gg^T]$ its second
    moment, not centred; then `balanced_limit` with that gap. To first order in lr: at lr = 1e-3
    D is good to a few parts in a thousand. The noise makes the gap grow, and so SGD ends nearer
    to the minimiser of least norm than gradient flow.

    With momentum β steps count as ones of lr/(1 − β); the mean gradient, whose kicks are all in
    one direction, moves the gap (1 + β)/(1 − β) times as much as there, noise as much as there.

    Args:
        problem: Regression with k = 1 whose labels can be fitted: SGD comes to rest on no other.
        theta0: (d,) or (d, 1), the predictor of the balanced start; not zero.
        depth: N, the number of factors; 2L − 1 for a rank-1 net of L layers.
        lr: the learning rate.
        batch_size: b, how many rows a step sees; all of them is gradient descent.
        replace: may a row be drawn twice?
        momentum: β of heavy ball, v ← βv + g.
    """
    beta = checks.number("momentum", momentum, at_least=0, below=1)
    lr = checks.number("lr", lr, at_least=0) / (1 - beta)
    one_output(problem, "sgd_limit")
    finite_data(problem, "sgd_limit")
    noise = Minibatch(batch_size, replace)
    noise.check(problem, None)
    variance = float(noise.compact_moments(problem.n)[0])
    if variance > 0 and problem.min_loss > FITS * float(problem.loss(np.zeros(problem.d))):
        raise ValueError(
            f"problem must have labels that can be fitted, got a least loss of "
            f"{problem.min_loss:.3g}: the noise of minibatches does not vanish there, and SGD "
            "does not converge"
        )
    view = singular_basis(problem)
    straight = (1 + beta) / (1 - beta)
    moments = minibatch_moments(problem, view, variance, straight)
    gap = final_gap(problem, view, theta0, depth, lr, moments)
    return balanced_limit(problem, theta0, depth, gap)


def minibatch_moments(
    problem: Regression, view: SingularBasis, variance: float, straight: float = 1.0
) -> MomentsOf:
    """Second moments of a gradient whose samples have weights of Cov = variance·(I − 11ᵀ/n).

    `straight` multiplies what is of the mean gradient.
    """
    X = np.asarray(problem.X)
    n = problem.n
    rows = X @ view.basis
    lengths = np.sum(X * X, axis=1)
    double = 2 * float(problem.weight)

    def moments(error: np.ndarray, a: np.ndarray) -> GradientMoments:
        g = view.curvature * error
        single = double * (rows @ error)
        squares = float(lengths @ single**2), float(np.sum((single * (rows @ a)) ** 2))
        mean = float(g @ g), float(a @ g) ** 2
        both = zip(mean, squares, strict=True)
        total, along = (straight * m + variance * (s - m / n) for m, s in both)
        return GradientMoments(total, along)

    return moments
