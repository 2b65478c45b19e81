"""Setups as a new user writes them, with default settings: name → a function that makes it."""

import numpy as np

import gradbias as gb


def readme(dynamics):
    problem = gb.problems.gaussian(n=5, d=10, k=3, key=1, loss="half_mean")
    net = gb.TwoLayer(d=10, k=3, width=200)
    return gb.Setup(problem, net, gb.init.orthogonal(net, gamma=1e-4), dynamics)


def orthogonal():
    problem = gb.problems.gaussian(n=8, d=12, k=2, key=0, loss="half_mean")
    net = gb.TwoLayer(12, 2, 12)
    return gb.Setup(problem, net, gb.init.orthogonal(net, gamma=1e-2), gb.Flow())


def constant_diagonal():
    problem = gb.problems.gaussian(n=3, d=6, key=1, loss="half_mean")
    net = gb.Diagonal(6)
    return gb.Setup(problem, net, gb.init.constant(net, 0.1), gb.Descent(0.02))


def label_noise(key, k=1):
    problem = gb.problems.gaussian(n=4, d=6, k=k, key=key, loss="half_mean")
    net = gb.TwoLayer(6, k, 8)
    start = gb.init.orthogonal(net, gamma=1e-2)
    return gb.Setup(problem, net, start, gb.Descent(0.02, gb.LabelNoise(0.5)), key=key)


def few_samples(change=None):
    """n = 3 < d = 4."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(3, 4)), rng.normal(size=3)
    if change == "repeated":
        X[1] = X[0]
    if change == "rank one":
        X = np.outer(rng.normal(size=3), rng.normal(size=4))
        y = X @ rng.normal(size=4)
    return gb.Regression.half_mean(X, y)


def diagonal(change=None, **more):
    net = gb.Diagonal(4)
    start = gb.init.gaussian(net, 0.5, key=1)
    return gb.Setup(few_samples(change), net, start, gb.Flow(), **more)


def gaussian(std, key, dynamics):
    net = gb.TwoLayer(4, 1, 12)
    return gb.Setup(few_samples(), net, gb.init.gaussian(net, std, key=key), dynamics)


def opposite():
    """Balanced, opposite to the solution, a sample twice with different labels."""
    problem, net = few_samples("repeated"), gb.TwoLayer(4, 1, 6)
    start = gb.init.balanced(net, -0.7 * problem.min_norm, key=3)
    return gb.Setup(problem, net, start, gb.Flow())


def rank1():
    rng = np.random.default_rng(0)
    net = gb.Rank1(4, 2, 1)
    problem = gb.Regression.half_mean(rng.normal(size=(3, 4)), rng.normal(size=3))
    start = gb.init.gaussian(net, 0.8, key=1)
    return gb.Setup(problem, net, start, gb.Descent(0.02), gb.Until(steps=300))


class OwnNet(gb.LinearNet):
    def shapes(self):
        return {"a": (2,), "b": (2,)}

    def predictor(self, params):
        return params["a"] * params["b"]

    def symmetries(self):
        return {"a-b": gb.symmetry.neurons({"a": 0}, {"b": 0})}


def own_net():
    problem = gb.Regression.half_mean(np.eye(2), np.array([1.0, 2.0]))
    start = {"a": np.array([0.5, 0.6]), "b": np.array([0.4, 0.3])}
    return gb.Setup(problem, OwnNet(), start, gb.Descent(0.05), gb.Until(steps=50))


CLOSE = gb.Until(gap=1e-22, time=1e4)
QUICK = {
    "rank-1 net": rank1,
    "a net of one's own": own_net,
    "constant diagonal net, descent": constant_diagonal,
}
SLOW = {
    "the README's, descent": lambda: readme(gb.Descent(lr=0.02)),
    "the README's, flow": lambda: readme(gb.Flow()),
    "orthogonal two layers": orthogonal,
    **{f"label noise, key {key}": lambda key=key: label_noise(key) for key in range(4)},
    "label noise, two outputs": lambda: label_noise(0, k=2),
    "diagonal net, few samples": diagonal,
    "diagonal net, small gap": lambda: diagonal(until=CLOSE),
    "diagonal net, contradicting labels": lambda: diagonal("repeated", until=CLOSE),
    "diagonal net, data of rank one": lambda: diagonal("rank one", until=CLOSE),
    "Gaussian two layers, flow": lambda: gaussian(0.5, 0, gb.Flow()),
    "Gaussian two layers, descent": lambda: gaussian(0.1, 3, gb.Descent(0.02)),
    "balanced, opposite, contradicting labels": opposite,
}
