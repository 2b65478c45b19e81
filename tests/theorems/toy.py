"""A theorem small enough to look through: a linear model keeps what the data do not see."""

import numpy as np

import gradbias as gb
from gradbias import theorems as th

D, N = 4, 2


def setup(key, scale=1.0, flow=True, decay=0.0, **more):
    problem = gb.problems.gaussian(n=N, d=D, key=key)
    net = gb.Deep(dims=(D, 1))
    params = {"W1": scale * np.random.default_rng(key).normal(size=(D, 1))}
    dynamics = gb.Flow(weight_decay=decay) if flow else gb.Descent(0.1, weight_decay=decay)
    until = more.pop("until", gb.Until(gap=1e-24, time=1e3))
    return gb.Setup(problem, net, params, dynamics, until=until, key=key, **more)


def predict(setup):
    problem = setup.problem
    theta0 = np.asarray(setup.params["W1"])[:, 0]
    away = theta0 - problem.row_space @ (problem.row_space.T @ theta0)
    return {"theta": np.ravel(problem.min_norm) + away}


def measure(run):
    return {"theta": th.limit(run)}


def decay(setup):
    return float(setup.dynamics.weight_decay)


def theorem(**changes):
    arguments = {
        "id": "toy.frozen",
        "statement": r"Gradient flow of a linear model ends at $X^+y+(I-X^+X)\theta(0)$.",
        "hypotheses": [th.Hypothesis("no weight decay", decay, 0.0)],
        "predict": predict,
        "measure": measure,
        "tolerance": 1e-8,
        "instances": setup,
        "controls": [th.Control("no weight decay", lambda key: setup(key, decay=0.1))],
        "nets": (gb.Deep,),
        "title": "the frozen part",
    }
    return th.Theorem(**{**arguments, **changes})
