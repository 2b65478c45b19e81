"""Optimisers as people write them in NumPy: an oracle that shares no line with the library."""

import numpy as np
import scipy.linalg

from reference import linear_gradient, mlp_gradient


def gradient_of(kind, problem, indices=None, noise=None):
    """∇L at parameters, on the batch and with the label noise of step k."""
    X, Y, weight = problem.X, problem.Y.reshape(len(problem.X), -1), float(problem.weight)

    def gradient(params, k):
        rows = np.arange(len(X)) if indices is None else indices[k]
        labels = Y[rows] if noise is None else Y[rows] + noise[k]
        scale = weight * len(X) / len(rows)
        if kind == "MLP":
            return mlp_gradient(params, X[rows], labels, scale)
        return linear_gradient(kind, params, X[rows], labels, scale)

    return gradient


def walk(step, gradient, params, steps, lr):
    """Parameters after some steps; `step` maps (p, g, memory, lr, k) to p and memory, per tensor.

    Args:
        step: of one tensor; its memory starts at None.
        gradient: of all tensors, see `gradient_of`.
        params: the start.
        steps: how many.
        lr: a number or a function of the step.
    """
    params = {name: value.copy() for name, value in params.items()}
    memory = dict.fromkeys(params)
    for k in range(steps):
        grads = gradient(params, k)
        rate = lr(k) if callable(lr) else lr
        for name in params:
            params[name], memory[name] = step(params[name], grads[name], memory[name], rate, k)
    return params


def nesterov(beta, decay=0.0):
    """`decay` is γ of L + γ‖p‖²."""

    def step(p, g, v, lr, k):
        g = g + 2 * decay * p
        v = beta * (0 if v is None else v) + g
        return p - lr * (g + beta * v), v

    return step


def adam(betas, eps, decay=0.0, decoupled=True, inside=False):
    b1, b2 = betas

    def step(p, g, memory, lr, k):
        m, v = (0.0, 0.0) if memory is None else memory
        if decoupled:
            p = p - lr * decay * p
        else:
            g = g + decay * p
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        m_hat, v_hat = m / (1 - b1 ** (k + 1)), v / (1 - b2 ** (k + 1))
        size = np.sqrt(v_hat + eps) if inside else np.sqrt(v_hat) + eps
        update = np.divide(m_hat, size, out=np.zeros_like(m_hat), where=size > 0)
        return p - lr * update, (m, v)

    return step


def lion(betas, decay=0.0):
    b1, b2 = betas

    def step(p, g, m, lr, k):
        m = np.zeros_like(p) if m is None else m
        p = p - lr * (np.sign(b1 * m + (1 - b1) * g) + decay * p)
        return p, b2 * m + (1 - b2) * g

    return step


def muon(factor, momentum, nesterov=False, decay=0.0, scale=1.0):
    def step(p, g, m, lr, k):
        m = (1 - momentum) * g + (0 if m is None else momentum * m)
        seen = (1 - momentum) * g + momentum * m if nesterov else m
        return p - lr * (decay * p + scale * factor(seen)), m

    return step


def polar(G):
    """UVᵀ without singular values below 1e-9 of the largest, by another driver of LAPACK."""
    U, s, Vt = scipy.linalg.svd(G, full_matrices=False, lapack_driver="gesvd")
    kept = s > 1e-9 * s[0]
    return U[:, kept] @ Vt[kept]


def newton_schulz(G):
    """What torch.optim.Muon does, in double precision: on singular values, not on matrices."""
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    x = s / max(np.linalg.norm(s), 1e-7)
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    return (U * x) @ Vt


def uphill(gradient, rho):
    """SAM: the gradient where ρ uphill the same batch leads."""

    def at(params, k):
        grads = gradient(params, k)
        length = np.sqrt(sum(np.sum(g**2) for g in grads.values()))
        moved = {n: p + rho * grads[n] / length for n, p in params.items()}
        return gradient(moved, k)

    return at
