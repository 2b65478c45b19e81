"""States on which scenes are tried, and how near a run comes to what is predicted there."""

import numpy as np

# Scene → (state, {key of a number: largest error, relative to the largest entry}).
STATES = {
    "which_minimum": [
        ({}, dict.fromkeys(("linear", "deep", "rank1", "diagonal"), 1e-8)),
        (
            {"x1": -0.7, "x2": 1.4, "y": -1.1, "start1": 0.8, "scale": 0.5, "alpha": 0.3},
            dict.fromkeys(("linear", "deep", "rank1", "diagonal"), 1e-8),
        ),
    ],
    # Of first order in lr; noise of the mean of eight draws comes on top for SGD.
    "sgd_against_gd": [
        (
            {"lr": 0.01},
            {"flow end": 1e-8, "GD end": 5e-4, "GD gap": 0.02, "SGD end": 5e-3, "SGD gap": 0.05},
        ),
        (
            {"lr": 0.02, "batch": 8, "start1": 0.2, "start2": -0.9},
            {"flow end": 1e-8, "GD end": 1e-3, "GD gap": 0.02, "SGD end": 1e-3, "SGD gap": 0.02},
        ),
    ],
    # Between saves the time of a half is read off a line.
    "singular_values": [
        ({}, {"half1": 1e-4, "half2": 1e-4, "half3": 1e-4}),
        (
            {"sigma1": 0.8, "sigma2": 3.5, "gamma": 0.01},
            {"half1": 1e-3, "half2": 1e-3, "half3": 1e-3},
        ),
    ],
    # Of first order in lr, which here leaves 2 %.
    "label_noise": [({}, {"last": 0.03}), ({"lr": 0.02, "std": 0.8, "alpha": 0.6}, {"last": 0.03})],
    "noise_balance": [
        ({"lr": 0.005}, {"gd": 1e-6}),
        ({"labels": 0.5, "inputs": 3.0, "stretch": 0.6}, {"gd": 1e-6}),
    ],
    "imbalance": [
        ({}, {"balanced": 1e-5}),
        ({"factor": 0.2, "std": 0.5, "key": 3, "time": 5}, {"balanced": 1e-5}),
    ],
    # 1/(norm of the weights) of the margin is still missing.
    "separators": [
        ({}, dict.fromkeys(("L1 margin", "L2 margin", "Linf margin", "L1", "L2", "Linf"), 0.01)),
        (
            {"x1": 0.5, "x2": 1.1, "z1": -1.0, "lr": 0.03},
            dict.fromkeys(("L1 margin", "L2 margin", "Linf margin", "L1", "L2", "Linf"), 0.02),
        ),
    ],
}
CASES = [(name, *case) for name, cases in STATES.items() for case in cases]


def values(content):
    """Key → number or array."""
    return {one["key"]: np.asarray(one["value"], dtype=float) for one in content["numbers"]}


def error(found, expected):
    """The largest one, relative to the largest entry."""
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
