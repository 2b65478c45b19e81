"""The limiting flow under label noise, exactly."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...problems import Regression
from .._problem import Params
from ._dual import ROUGH, sink
from ._fits import decay_rates, fits, halves
from ._limit import natural_scale, reachable, settle
from ._log_point import parameters, point

CERTIFIED = 1e-9


def limiting_flow(
    problem: Regression, params: Params, t: ArrayLike, c: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""(u, v) of the limiting flow of label-noise SGD at times t, without integrating.

    Gradient flow and the slow motion both multiply coordinates, so they commute: shrink u₀ and v₀
    by $e^{-c s_j t/2}$, then follow gradient flow to its end (`limit`). This solves
    dx = −(c/4)·P∇tr H dt on the manifold of minimisers, from Φ(u0, v0): Eq (17), Lemma D.13.

    Time is t = k·lr² after k steps. c is defined by Σ = c·H, noise covariance against Hessian of
    this problem: `noise_level(problem, std, batch_size)`, that is c = 2·n·weight·std²/b, for
    `gb.LabelNoise(std, b)`, and std²/b with L = (1/2n)‖·‖². Labels that cannot be fitted leave
    minibatch noise behind, which is not in this c; with all rows in a step the answer holds.

    Coordinates that die out keep their digits in logarithms (t may be 1e5). Where the labels are
    fitted by fewer coordinates than samples, a θ_j below 1e-15 of the largest is that of exact
    labels, which rounded ones are taken for.

    Args:
        problem: with one output.
        params: u and v at the start, (d,) each; it need not be on the manifold.
        t: times of at least 0, in any order; a number or an array.
        c: strength of the noise.

    Returns:
        u and v of shape t.shape + (d,).
    """
    rates = decay_rates(problem)
    u, v = halves(problem.d, params)
    times = checks.array("t", t)
    c = checks.number("c", c, at_least=0)
    if np.any(times < 0):
        raise ValueError(f"t must be at least 0, got {np.min(times)}")
    if not math.isfinite(c * float(np.max(times, initial=0.0)) * float(np.max(rates))):
        raise ValueError(
            "t and c must have a decay c·s·t within the range of float64, got "
            f"t = {np.max(times):.3g}, c = {c:.3g} and the decay rate s = {np.max(rates):.3g}"
        )
    goal = reachable(fits(problem), u, v)
    scale = natural_scale(goal, u, v)
    goal = goal.scaled(scale)
    leaves = np.all(times > 0) and c * np.max(rates) > 0  # t = 0 is only on the way
    now = settle(goal, point(u, v, scale), ROUGH if leaves else 0.0)
    last = 0.0
    answer = np.empty((2, times.size, len(u)))
    for i in np.argsort(times, axis=None):
        time = float(times.flat[i])
        now = sink(goal, now.at, c * (time - last) * rates)
        last = time
        _certify(now.residual, time)
        answer[:, i] = parameters(now.at, u, v, scale)
    answer = answer.reshape(2, *times.shape, len(u))
    return answer[0], answer[1]


def _certify(residual: float, time: float) -> None:
    if not residual <= CERTIFIED:
        raise RuntimeError(
            f"the limiting flow is not certified at t = {time:g}: residual {residual:.1e} > "
            f"{CERTIFIED:.0e}. Probable causes: (1) X is close to rank-deficient, (2) u0 and v0 "
            "span more orders of magnitude than float64 holds."
        )
