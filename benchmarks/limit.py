"""A theorem instead of a run: `balanced_limit` against our own flow and SciPy's."""

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

import gradbias as gb

from .protocol import Check

NET = gb.Rank1(d=100, depth=3, width=100)


@functools.cache
def setup() -> gb.Setup:
    """The papers' size: 40 samples in 100 dimensions, gradient flow to a gap of 1e-16."""
    problem = gb.problems.gaussian(n=40, d=100, informative=20, key=0)
    start = np.random.default_rng(0).normal(size=100)
    params = gb.init.balanced(NET, start / np.linalg.norm(start))
    until = gb.Until(gap=1e-16, time=1e6)
    return gb.Setup(problem, NET, params, gb.Flow(), until=until, save_at=[0.0])


def theorem() -> np.ndarray:
    """The end point by Theorem 1."""
    v1 = setup().params["v1"]
    theta0 = np.linalg.norm(v1) ** 4 * v1  # balanced: ξ = ‖v1‖^{2(L−1)}
    return gb.theory.balanced_limit(setup().problem, theta0, depth=5).theta


def flow() -> np.ndarray:
    """The end point by our reduced flow."""
    theta = gb.simulate(setup(), progress=False).theta
    assert theta is not None
    return theta


def full_flow(time_end: float = 30.0) -> np.ndarray:
    """The end point by SciPy's DOP853 on all parameters."""
    problem: Any = setup().problem
    params = setup().params
    u, v = params["u"], params["v"]
    X, y, n = problem.X, np.ravel(problem.Y), problem.n
    start = np.concatenate([params["v1"], u.ravel(), v.ravel()])

    def field(_: float, p: np.ndarray) -> np.ndarray:
        v1, u_, v_ = p[:100], p[100:300].reshape(2, 100), p[300:].reshape(2, 100)
        omega = np.sum(u_ * v_, axis=1)
        g = 2 / n * X.T @ (omega.prod() * (X @ v1) - y)
        push = (omega[::-1] * (v1 @ g))[:, None]
        return -np.concatenate([omega.prod() * g, (push * v_).ravel(), (push * u_).ravel()])

    end = scipy.integrate.solve_ivp(
        field, (0, time_end), start, "DOP853", rtol=1e-10, atol=1e-12
    ).y[:, -1]
    u_, v_ = end[100:300].reshape(2, 100), end[300:].reshape(2, 100)
    return np.prod(np.sum(u_ * v_, axis=1)) * end[:100]


def seconds(work: Callable[[], Any], times: int) -> float:
    """The median CPU time of a warm call."""
    work()
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


def against(other: Callable[[], np.ndarray], times: int) -> tuple[float, dict[str, Any]]:
    """The time of the theorem over that of the other, and how far their end points are apart."""
    ours, theirs = seconds(theorem, 50), seconds(other, times)
    apart = float(np.max(np.abs(theorem() - other())))
    return ours / theirs, {"theorem_seconds": ours, "other_seconds": theirs, "difference": apart}


def workloads(quick: bool) -> list[Check]:
    """A theorem costs less than a step of what it replaces."""
    return [
        Check("balanced_limit", lambda: (1e3 * seconds(theorem, 50), {}), 5.0, "ms"),
        Check("balanced_limit / our flow", lambda: against(flow, 5), 1 / 50, "of its time"),
        Check("balanced_limit / DOP853", lambda: against(full_flow, 1), 1 / 1000, "of its time"),
    ]
