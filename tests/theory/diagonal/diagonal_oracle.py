"""Oracles for diagonal nets without a line of the library: loops, integrators, enumeration."""

import itertools

import numpy as np
from scipy.integrate import solve_ivp

import gradbias as gb


def random_problem(seed, n, d, weight=0.5, duplicate=False):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    if duplicate:  # rank-deficient, and the labels cannot be fitted
        X[-1] = X[0]
    return gb.Regression(X, y, weight)


def random_start(seed, d, scale=1.0):
    rng = np.random.default_rng(1000 + seed)
    return scale * rng.standard_normal(d), scale * rng.standard_normal(d)


def field(problem, x):
    u, v = np.split(x, 2)
    g = 2 * problem.weight * problem.X.T @ (problem.X @ (u * u - v * v) - problem.labels[:, 0])
    return np.concatenate([-2 * u * g, 2 * v * g])


def integrated(right, x0, T, scale=1.0):
    """The end of ẋ = right(x) and the length of the path."""

    def with_length(_, state):
        speed = right(state[:-1])
        return np.append(speed, np.linalg.norm(speed))

    start = np.append(x0, 0.0)
    run = solve_ivp(with_length, (0, T), start, "DOP853", rtol=1e-12, atol=1e-11 * scale)
    return run.y[:-1, -1], run.y[-1, -1]


def gradient_flow(problem, u0, v0, T):
    start = np.concatenate([u0, v0])
    scale = np.min(np.abs(start[start != 0]))
    end, length = integrated(lambda x: field(problem, x), start, T, scale)
    return *np.split(end, 2), length


def jacobian(X, x):
    u, v = np.split(x, 2)
    return 2 * np.hstack([X * u, -X * v])


def projected_field(problem, x, c):
    """−(c/4)·(I − J⁺J)∇R, R the trace of 2·weight·JᵀJ."""
    J = jacobian(problem.X, x)
    s = 8 * problem.weight * np.sum(problem.X**2, axis=0)
    slope = 2 * np.tile(s, 2) * x
    return -c / 4 * (slope - np.linalg.pinv(J) @ (J @ slope))


def vertices(X, y):
    """All basic fits of a system of full row rank."""
    n, d = X.shape
    for chosen in itertools.combinations(range(d), n):
        w = np.zeros(d)
        w[list(chosen)] = np.linalg.solve(X[:, chosen], y)
        yield w
