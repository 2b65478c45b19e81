"""Problems, nets and dynamics that many tests share."""

import functools

import numpy as np

import gradbias as gb

STEPS = 300


def data(n=6, d=9, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X, theta = rng.normal(size=(n, d)), rng.normal(size=(d, k))
    return X, X @ theta + 0.1 * rng.normal(size=(n, k))


# name -> (net, outputs, standard deviation of the init)
NETS = {
    "two layers": (lambda: gb.TwoLayer(9, 2, 30), 2, 0.3),
    "two narrow layers": (lambda: gb.TwoLayer(9, 2, 1), 2, 0.3),
    "deep": (lambda: gb.Deep([9, 12, 7, 2]), 2, 0.3),
    "one layer": (lambda: gb.Deep([9, 2]), 2, 0.3),
    "rank one": (lambda: gb.Rank1(9, 3, 8), 1, 0.6),
    "rank one, one layer": (lambda: gb.Rank1(9, 1, 8), 1, 0.6),
}


# Every way to descend on the nets that differ; plain and all together on the odd sizes.
DESCENTS = (
    "gd",
    "minibatch",
    "label noise",
    "momentum",
    "weight decay",
    "all together",
    "schedule",
)
ODD = ("two narrow layers", "one layer", "rank one, one layer")
PAIRS = [
    (net, descent)
    for net in NETS
    for descent in (("gd", "all together") if net in ODD else DESCENTS)
]


@functools.cache
def case(name):
    """A problem, a net and parameters."""
    make, k, std = NETS[name]
    X, Y = data(k=k)
    problem = gb.Regression.half_mean(X, Y if k > 1 else Y[:, 0])
    net = make()
    rng = np.random.default_rng(1)
    params = {key: std * rng.normal(size=shape) for key, shape in net.shapes().items()}
    return problem, net, params


def minibatches(n=6, b=2, steps=STEPS):
    return np.random.default_rng(2).integers(0, n, size=(steps, b))


def label_noise(rows, k, steps=STEPS):
    return 0.3 * np.random.default_rng(3).normal(size=(steps, rows, k))


LR = 0.03


def dynamics(name, k):
    """One of the ways to descend, for k outputs."""
    return {
        "gd": lambda: gb.Descent(LR),
        "minibatch": lambda: gb.Descent(LR, gb.Replay(minibatches())),
        "label noise": lambda: gb.Descent(LR, gb.Replay(label_noise=label_noise(6, k))),
        "momentum": lambda: gb.Descent(LR / 5, momentum=0.9),
        "weight decay": lambda: gb.Descent(LR, weight_decay=0.05),
        "all together": lambda: gb.Descent(
            LR / 5, gb.Replay(minibatches(), label_noise(2, k)), momentum=0.9, weight_decay=0.05
        ),
        "schedule": lambda: gb.Descent(gb.dynamics.piecewise({0: LR / 3, 100: LR})),
    }[name]()
