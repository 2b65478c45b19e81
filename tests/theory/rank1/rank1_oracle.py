"""Gradient flow and SGD on all parameters by hand: shares no line with the library."""

import itertools

import numpy as np
from scipy.integrate import DOP853


def problem_data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) / 2


def random_params(L, d, width, scale, seed):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, L - 1, width)) / width**0.5
    return {"v1": scale * rng.normal(size=d) / d**0.5, "u": scale * u, "v": scale * v}


def balanced_params(theta0, L, width=3, signs=None, seed=0):
    e = np.random.default_rng(seed).normal(size=(L - 1, width))
    e /= np.linalg.norm(e, axis=1, keepdims=True)
    signs = np.ones(L - 1) if signs is None else np.asarray(signs)
    size = np.linalg.norm(theta0) ** (1 / (2 * L - 1))
    v1 = signs.prod() * size * theta0 / np.linalg.norm(theta0)
    return {"v1": v1, "u": size * e, "v": signs[:, None] * size * e}


def balanced_layers(theta0, N, width=3, seed=0):
    """W1 (d, width), …, WN (width, 1), each of rank one."""
    rng = np.random.default_rng(seed)
    units = [theta0 / np.linalg.norm(theta0)]
    for _ in range(N - 1):
        e = rng.normal(size=width)
        units.append(e / np.linalg.norm(e))
    size, units = np.linalg.norm(theta0) ** (1 / N), [*units, np.ones(1)]
    return [size * np.outer(a, b) for a, b in itertools.pairwise(units)]


def predictor(params):
    if isinstance(params, list):
        product = params[-1]
        for W in params[-2::-1]:
            product = W @ product
        return product[:, 0]
    return (params["u"] * params["v"]).sum(axis=1).prod() * params["v1"]


def gradients(params, g):
    """In the parameters, of a loss with the gradient g in the predictor."""
    if isinstance(params, list):
        out = []
        for k in range(len(params)):
            left, right = np.eye(len(g)), np.eye(1)
            for W in params[:k]:
                left = left @ W
            for W in reversed(params[k + 1 :]):
                right = W @ right
            out.append(left.T @ g[:, None] @ right.T)
        return out
    omega = (params["u"] * params["v"]).sum(axis=1)
    others = [omega[:k].prod() * omega[k + 1 :].prod() for k in range(len(omega))]
    pull = (np.array(others) * (params["v1"] @ g)).reshape(-1, 1)
    return {"v1": omega.prod() * g, "u": pull * params["v"], "v": pull * params["u"]}


def flat(params):
    values = params if isinstance(params, list) else [params[k] for k in ("v1", "u", "v")]
    return np.concatenate([np.ravel(x) for x in values])


def shaped(params, vector):
    values = params if isinstance(params, list) else [params[k] for k in ("v1", "u", "v")]
    parts, at = [], 0
    for x in values:
        parts.append(vector[at : at + x.size].reshape(x.shape))
        at += x.size
    return parts if isinstance(params, list) else dict(zip(("v1", "u", "v"), parts, strict=True))


def flow(X, y, weight, params, velocity=None, stop=1e-20, until=np.inf):
    """The parameters where gradient flow has a loss below `stop`, or at a time."""

    def residual(p):
        return X @ predictor(p) - y

    def descent(time, vector):
        p = shaped(params, vector)
        if velocity is not None:
            return flat(velocity(p))
        return -flat(gradients(p, 2 * weight * X.T @ residual(p)))

    start = flat(params)
    atol = 1e-13 * np.max(np.abs(start))
    solver = DOP853(descent, 0.0, start, until, rtol=1e-12, atol=atol)
    for _ in range(20_000):
        now = shaped(params, solver.y)
        if solver.status == "finished" or weight * np.sum(residual(now) ** 2) < stop:
            return now
        solver.step()
    raise AssertionError(f"no end: t = {solver.t}, loss {weight * np.sum(residual(now) ** 2)}")


def rank1_sgd(X, y, weight, theta0, N, lr, steps, batch=None, members=1, replace=False, seed=0):
    """SGD on v1 and the norm s of the other N − 1 factors, many members at once: δ, θ, residual."""
    rng, n = np.random.default_rng(seed), len(X)
    rho = np.linalg.norm(theta0)
    v, s = np.tile(theta0 * rho ** (1 / N - 1), (members, 1)), np.full(members, rho ** (1 / N))
    for _ in range(steps):
        if batch is None:
            rows = np.tile(np.arange(n), (members, 1))
        elif replace:
            rows = rng.integers(0, n, size=(members, batch))
        else:
            rows = np.argsort(rng.random((members, n)), axis=1)[:, :batch]
        XB, xi = X[rows], s ** (N - 1)
        r = xi[:, None] * (XB @ v[:, :, None])[..., 0] - y[rows]
        g = 2 * weight * n / rows.shape[1] * (r[:, None, :] @ XB)[:, 0]
        v, s = v - lr * xi[:, None] * g, s - lr * s ** (N - 2) * np.sum(v * g, axis=1)
    theta = s[:, None] ** (N - 1) * v
    return np.sum(v * v, axis=1) - s * s, theta, np.max(np.abs(theta @ X.T - y))
