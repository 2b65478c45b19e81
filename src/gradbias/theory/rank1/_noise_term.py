r"""The terms of Theorem 3: what SGD's noise would take from the dependence on the start.

Under Lemma 3's equation, that is if the noise kept the net balanced, $P_N\nabla V(\theta)$ falls by
$P_Ng(t)$ with $g = \frac{2\lambda\eta}{nb}\int\mathcal L\,\mathrm{tr}(P_\perp X^TX)
\|\theta\|^{e}\theta\,ds$, and $e = 3\lambda-2$ in training time. It does not keep it balanced:
what really happens is a matter of the gap alone (`balanced_limit`, `sgd_limit`).
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.integrate
from numpy.typing import ArrayLike

from ...numerics import checks
from ...problems import Regression
from .._problem import finite_data, one_output
from .._units import INPUT, LABEL, PARAMETER, PREDICTOR, TIME, WEIGHT, Degree, homogeneous
from ._velocities import depth_exponents, time_warp

Form = Literal["corrected", "printed"]
Clock = Literal["t", "tau"]


class Alleviation(NamedTuple):
    """Along a path of the predictor.

    Attributes:
        p: (saves,) θ·θ(0)/‖θ(0)‖^λ, Eq (13): how V depends on the start.
        q: (saves,) θ·g, Eq (14): what the noise takes from it.
        g: (saves, d), Eq (111).
        alpha: (saves, d), the integral of Eq (12), g without the factor 2λη/(nb).
    """

    p: np.ndarray
    q: np.ndarray
    g: np.ndarray
    alpha: np.ndarray


def _degrees(call: Mapping[str, Any]) -> dict[str, Degree]:
    """‖θ‖^e has the unit b·e, and λ = 1 − 1/N: λb is b − p."""
    powers = {  # of ‖θ‖, the clock's own included
        "corrected": PREDICTOR - 3 * PARAMETER,
        "printed": -1 * PREDICTOR - PARAMETER,
    }
    e = powers.get(call.get("form", "corrected"), PREDICTOR)
    if call.get("clock") == "tau" and call.get("form") == "printed":
        e = e + PREDICTOR - PARAMETER
    alpha = 2 * LABEL + 2 * INPUT + e + PREDICTOR + TIME
    g = TIME + 2 * WEIGHT + alpha
    return {"p": PREDICTOR + PARAMETER, "q": PREDICTOR + g, "g": g, "alpha": alpha}


@homogeneous(_degrees, by="theta", theta=PREDICTOR, t=TIME, lr=TIME)
def alleviation_terms(
    problem: Regression,
    t: ArrayLike,
    theta: ArrayLike,
    depth: int | float,
    lr: float,
    batch_size: int = 1,
    form: Form = "corrected",
    clock: Clock = "t",
) -> Alleviation:
    r"""p, q and α of Theorem 3 along a path of gradient flow or SGD.

    The weight ‖θ‖^e has e = 3λ − 2 in training time and 2λ − 2 in $\tau = \int\|\theta\|^\lambda
    dt$, which is the same integral. As printed it is λ − 2 in either. For infinitely many layers
    (113), e = 1 instead of −1.

    Args:
        problem: Regression with k = 1.
        t: (saves,) training times, k·lr after k steps.
        theta: (saves, d) the predictor at these times; dense enough for the trapezoidal rule.
        depth: N, the number of factors, 2L − 1 for a rank-1 net; may be `float("inf")`.
        lr: the learning rate.
        batch_size: b, rows in a step.
        form: "corrected", or "printed" for the exponent of the paper.
        clock: which time to integrate in.
    """
    one_output(problem, "alleviation_terms")
    finite_data(problem, "alleviation_terms")
    times = checks.array("t", t, shape=(None,))
    if len(times) == 0 or np.any(np.diff(times) < 0):
        raise ValueError(f"t must increase and not be empty, got {times!r:.80}")
    path = checks.array("theta", theta, shape=(len(times), problem.d))
    lam = depth_exponents(depth).lam
    rate = checks.number("lr", lr, at_least=0)
    rate /= checks.integer("batch_size", batch_size, at_least=1)
    power = _power(lam, form, clock)
    speed = alleviation_speed(problem, path, power)
    if clock == "tau":
        speed = speed * time_warp(path, depth)[:, None]
    alpha = scipy.integrate.cumulative_trapezoid(speed, times, axis=0, initial=0)
    # The noise of one gradient is 2·weight·n times that of the mean residual.
    g = 2 * lam * rate * float(problem.weight) ** 2 * problem.n * alpha
    start = np.linalg.norm(path[0]) ** -lam * path[0]
    return Alleviation(path @ start, np.sum(path * g, axis=1), g, alpha)


def _power(lam: float, form: str, clock: str) -> float:
    checks.one_of("clock", clock, ("t", "tau"))
    if checks.one_of("form", form, ("corrected", "printed")) == "printed":
        return lam - 2
    return 3 * lam - 2 if clock == "t" else 2 * lam - 2


def alleviation_speed(problem: Regression, path: np.ndarray, power: float) -> np.ndarray:
    """ℒ tr(P⊥XᵀX)‖θ‖^power θ at every point (saves, d); ℒ is the mean of r²."""
    X = np.asarray(problem.X)
    outputs = path @ X.T
    loss = np.mean((outputs - np.ravel(problem.labels)) ** 2, axis=1)
    square = np.sum(path * path, axis=1)
    if np.any(square == 0):
        raise ValueError("theta must nowhere be zero: it has no direction there")
    across = np.sum(X * X) - np.sum(outputs**2, axis=1) / square
    return (loss * across * square ** (power / 2))[:, None] * path
