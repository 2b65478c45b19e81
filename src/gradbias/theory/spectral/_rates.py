"""How fast the loss falls from $I_γ$: an exponential rate, and the mirror bound for one output."""

from typing import Any

import numpy as np
import scipy.integrate
from numpy.typing import ArrayLike

from ...numerics import checks
from .._problem import LeastSquares, one_output, singular_basis
from .._units import LOSS, PREDICTOR, RATE, TIME, homogeneous
from ._scalars import above, divergence_from_zero
from ._svd import matrix, nonnegative, positive, svd

FORMS = ("improved", "printed", "warped")


@homogeneous(RATE, by="gamma", gamma=PREDICTOR)
def exponential_rate(problem: LeastSquares, gamma: float) -> float:
    r"""The rate 4γλ of $L(t) - L^* \le (L(0) - L^*)\,e^{-4\gamma\lambda t}$.

    λ is the smallest non-zero eigenvalue of A = 2·weight·XᵀX. From
    $L' = -\|W_1^TR\|^2 - \|RW_2^T\|^2 \le -2\gamma\|R\|^2 \le -4\gamma\lambda(L - L^*)$. There is
    no such inequality for ‖R‖² itself (the paper's C.13): it can rise while the loss falls.

    Args:
        problem: a Regression or a Population; the rate is in its own time.
        gamma: the scale of the init, above 0.

    Returns:
        4γλ; infinite for data that are zero, whose loss is at its minimum from the start.
    """
    gamma = positive(gamma)
    values = singular_basis(problem).curvature
    return 4 * gamma * float(values[-1]) if len(values) else float("inf")


@homogeneous(LOSS, by="gamma,norms", gamma=PREDICTOR, norms=PREDICTOR, t=TIME)
def mirror_rate_bound(
    problem: LeastSquares,
    gamma: float,
    t: ArrayLike,
    form: str = "improved",
    norms: ArrayLike | None = None,
) -> np.ndarray:
    r"""Bounds on $L(t) - L^*$ for one output, from the mirror flow of ψ_γ (Lemma C.8).

    With $D = D_\psi(\beta^*, 0)$ and $\tau(t) = \int_0^t(\gamma+\sqrt{|\beta|^2+\gamma^2})^{1/2}$:

    - "improved": $D/(2\sqrt{2\gamma}\,t)$, since $\langle\nabla L,\beta-\beta^*\rangle$ is exactly
      2(L − L*);
    - "printed": $D/(\sqrt{2\gamma}\,t)$, the paper's, valid and twice as large;
    - "warped": $D/(2\tau(t))$, the sharpest; τ comes from a trajectory.

    Args:
        problem: a Regression or a Population with one output; t is its own time.
        gamma: the scale of the init, above 0.
        t: times, at least 0; the bound is infinite at 0.
        form: one of "improved", "printed", "warped".
        norms: |β(t)| at the times t, which must then increase, for "warped" only. τ is summed by
            trapezoids, with the least possible speed before the first time.
    """
    gamma = positive(gamma)
    one_output(problem, "mirror_rate_bound")
    times = nonnegative("t", t)
    form = checks.one_of("form", form, FORMS)
    if (norms is not None) != (form == "warped"):
        raise ValueError(f"norms must be given for form 'warped' and only then, got form {form!r}")
    least = np.sqrt(2 * gamma)
    if norms is None:
        clock = least * times / (2 if form == "printed" else 1)
    else:
        clock = _warp(times, nonnegative("norms", norms), gamma)
    reach = divergence_from_zero(float(svd(matrix("beta", problem.min_norm)).s[0]), gamma)
    return np.divide(reach, 2 * clock, out=np.full(times.shape, np.inf), where=clock > 0)


def _warp(times: np.ndarray, norms: np.ndarray, gamma: float) -> np.ndarray:
    if times.ndim != 1 or norms.shape != times.shape or np.any(np.diff(times) <= 0):
        raise ValueError(
            "t must be increasing and norms must have its shape for form 'warped', "
            f"got shapes {times.shape} and {norms.shape}"
        )
    speed = np.sqrt(above(norms, gamma))
    total: Any = scipy.integrate.cumulative_trapezoid(speed, times, initial=0)
    return np.sqrt(2 * gamma) * times[:1] + total
