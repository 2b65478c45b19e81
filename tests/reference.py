"""Gradients by hand and a plain loop: an oracle that shares no line with the library."""

import numpy as np


def deep_gradient(params, G):
    """Θ = W1 … WN: the gradient of Wk is (W1 … W(k−1))ᵀ G (W(k+1) … WN)ᵀ."""
    names = sorted(params, key=lambda name: int(name[1:]))
    Ws = [params[name] for name in names]
    result = {}
    for k, name in enumerate(names):
        left, right = np.eye(len(G)), np.eye(G.shape[1])
        for W in Ws[:k]:
            left = left @ W
        for W in reversed(Ws[k + 1 :]):
            right = W @ right
        result[name] = left.T @ G @ right.T
    return result


def deep_predictor(params):
    theta = np.eye(len(params["W1"]))
    for i in range(1, len(params) + 1):
        theta = theta @ params[f"W{i}"]
    return theta


def rank1_predictor(params):
    return (np.prod(np.sum(params["u"] * params["v"], axis=1)) * params["v1"])[:, None]


def rank1_gradient(params, G):
    """The paper's equations, with products that leave one pair out (no division by ω)."""
    g, overlaps = G[:, 0], np.sum(params["u"] * params["v"], axis=1)
    others = np.array([np.prod(np.delete(overlaps, k)) for k in range(len(overlaps))])
    pull = (others * (params["v1"] @ g))[:, None]
    return {"v1": np.prod(overlaps) * g, "u": pull * params["v"], "v": pull * params["u"]}


def diagonal_predictor(params):
    return (params["u"] ** 2 - params["v"] ** 2)[:, None]


def diagonal_gradient(params, G):
    return {"u": 2 * params["u"] * G[:, 0], "v": -2 * params["v"] * G[:, 0]}


PREDICTORS = {
    "TwoLayer": (deep_predictor, deep_gradient),
    "Deep": (deep_predictor, deep_gradient),
    "Rank1": (rank1_predictor, rank1_gradient),
    "Diagonal": (diagonal_predictor, diagonal_gradient),
}


def linear_gradient(kind, params, X, Y, scale):
    predictor, pull = PREDICTORS[kind]
    return pull(params, 2 * scale * X.T @ (X @ predictor(params) - Y))


def mlp_gradient(params, X, Y, scale):
    """Back-propagation through one tanh layer with biases."""
    hidden = np.tanh(X @ params["W1"] + params["b1"])
    delta = 2 * scale * (hidden @ params["W2"] + params["b2"] - Y)
    back = (delta @ params["W2"].T) * (1 - hidden**2)
    return {
        "W1": X.T @ back,
        "b1": back.sum(axis=0),
        "W2": hidden.T @ delta,
        "b2": delta.sum(axis=0),
    }


def loop(kind, params, X, Y, weight, steps, lr, indices=None, noise=None, momentum=0.0, decay=0.0):
    """SGD as people write it; `lr` is a number or a function of the step."""
    params = {name: value.copy() for name, value in params.items()}
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
    for k in range(steps):
        rows = np.arange(len(X)) if indices is None else indices[k]
        labels = Y[rows] if noise is None else Y[rows] + noise[k]
        scale = weight * len(X) / len(rows)
        if kind == "MLP":
            grads = mlp_gradient(params, X[rows], labels, scale)
        else:
            grads = linear_gradient(kind, params, X[rows], labels, scale)
        rate = lr(k) if callable(lr) else lr
        for name in params:
            velocity[name] = momentum * velocity[name] + grads[name] + 2 * decay * params[name]
            params[name] = params[name] - rate * velocity[name]
    return params
