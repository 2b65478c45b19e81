"""Gradient flow and descent on both layers, whole: an oracle that shares no line with the library.

The paper's letters: U = W1 (D, h), V = W2ᵀ (m, h). Segment by segment: the interpolant of DOP853 is
four digits worse than its steps.
"""

from typing import NamedTuple

import numpy as np
import scipy.integrate

import gradbias as gb


class Case(NamedTuple):
    n: int
    D: int
    m: int
    h: int
    rank: int
    weight: float = 0.5
    scale: float = 1.0
    seed: int = 0

    def rng(self):
        return np.random.default_rng([self.n, self.D, self.m, self.h, self.rank, self.seed])

    def make(self):
        """Singular values of X between 0.7 and 1.5, labels of size 1, Gaussian layers."""
        rng = self.rng()
        left, right = (np.linalg.qr(rng.standard_normal((a, a)))[0] for a in (self.n, self.D))
        sigma = rng.uniform(0.7, 1.5, self.rank)
        X = (left[:, : self.rank] * sigma) @ right[:, : self.rank].T
        problem = gb.Regression(X, rng.standard_normal((self.n, self.m)), self.weight)
        params = {
            "W1": self.scale * rng.standard_normal((self.D, self.h)),
            "W2": self.scale * rng.standard_normal((self.h, self.m)),
        }
        return problem, params


CASES = {
    "generic": Case(3, 6, 2, 7, 3),
    "rank-deficient, own weight": Case(5, 6, 3, 9, 2, weight=0.2),
    "n > D, own weight": Case(9, 3, 2, 6, 3, weight=1.0),
    "one output": Case(4, 5, 1, 4, 4),
    "k > D": Case(2, 2, 5, 6, 2, weight=0.3),
    "scalars": Case(1, 1, 1, 3, 1, weight=2.0),
    "width 1": Case(3, 4, 1, 1, 1),
    "narrower than m + r": Case(3, 5, 2, 3, 3),
}


def slope(problem, W1, W2):
    """∂L/∂W1 and ∂L/∂W2 of weight·‖XW1W2 − Y‖²."""
    Y = problem.Y.reshape(len(problem.X), -1)
    G = 2 * float(problem.weight) * problem.X.T @ (problem.X @ (W1 @ W2) - Y)
    return G @ W2.T, W1.T @ G


def flow(problem, params, ts):
    """The parameters at times ts."""
    shapes = params["W1"].shape, params["W2"].shape
    cut = params["W1"].size

    def layers(y):
        return y[:cut].reshape(shapes[0]), y[cut:].reshape(shapes[1])

    def rate(_, y):
        return -np.concatenate([g.ravel() for g in slope(problem, *layers(y))])

    y = np.concatenate([params["W1"].ravel(), params["W2"].ravel()])
    atol, now, path = 1e-11 * np.abs(y).max(), 0.0, []
    for t in ts:
        if t > now:
            y = scipy.integrate.solve_ivp(
                rate, (now, t), y, method="DOP853", rtol=1e-12, atol=atol
            ).y[:, -1]
        now = t
        path.append(dict(zip(("W1", "W2"), map(np.copy, layers(y)), strict=True)))
    return path


def descent(problem, params, lr, steps):
    W1, W2 = params["W1"].copy(), params["W2"].copy()
    for _ in range(steps):
        first, second = slope(problem, W1, W2)
        W1, W2 = W1 - lr * first, W2 - lr * second
    return {"W1": W1, "W2": W2}


def excess(problem, params):
    """L − L*, from the difference to a least-squares fit and not from the difference of losses."""
    Y = problem.Y.reshape(len(problem.X), -1)
    best = np.linalg.lstsq(problem.X, Y, rcond=1e-12)[0]
    off = problem.X @ (params["W1"] @ params["W2"] - best)
    return float(problem.weight) * np.sum(off**2)


def seen(problem, params):
    """U1, V, sigma and B, from an SVD of its own; signs may differ from the library's."""
    left, sigma, right = np.linalg.svd(problem.X, full_matrices=False)
    r = int(np.sum(sigma > 1e-10 * sigma[0]))
    B = left[:, :r].T @ problem.Y.reshape(len(problem.X), -1)
    return right[:r] @ params["W1"], params["W2"].T, sigma[:r], B


def kernel(problem, params):
    """The whole matrix of E ↦ ME + SEN on vectors of length r·m, times 2·weight."""
    U1, V, sigma, _ = seen(problem, params)
    M, N = (sigma[:, None] * U1) @ (sigma[:, None] * U1).T, V @ V.T
    K = np.kron(np.eye(len(V)), M) + np.kron(N, np.diag(sigma**2))
    return 2 * float(problem.weight) * K


def error(problem, params):
    U1, V, sigma, B = seen(problem, params)
    return B - sigma[:, None] * (U1 @ V.T)


def unseen(problem):
    """(D, D − r) basis of the directions that the data do not see."""
    right, r = np.linalg.svd(problem.X)[2], np.linalg.matrix_rank(problem.X)
    return right[r:].T


def relative(a, b):
    return np.linalg.norm(np.asarray(a) - b) / np.linalg.norm(b)
