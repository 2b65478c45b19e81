"""Instances: six samples, six inputs, four hidden units, three outputs; one output where said."""

import numpy as np

from ... import observe
from ...dynamics import Dynamics, Steps
from ...nets import Deep, Net, TwoLayer
from ...numerics.host_rng import generator
from ...problems import Regression
from ..prelude import Run, Setup, Until

D = 6
H = 4
K = 3
NET = TwoLayer(D, K, H)
PATH = {"params": observe.params}


def draws(key: int, what: str) -> np.random.Generator:
    """The random numbers of an instance."""
    return generator(key, f"theorems.optimiser {what}")


def fitted(key: int, n: int = 8) -> Regression:
    """Data that a linear net of these sizes can fit."""
    rng = draws(key, "data")
    X = rng.standard_normal((n, D))
    return Regression.half_mean(X, X @ rng.standard_normal((D, K)))


def layers(key: int, net: Net = NET, std: float = 0.3) -> dict[str, np.ndarray]:
    """Independent entries of this standard deviation."""
    rng = draws(key, "start")
    return {n: std * rng.standard_normal(shape) for n, shape in (net.shapes() or {}).items()}


def two_layers(key: int, dynamics: Dynamics, steps: int) -> Setup:
    """Some steps of a two-layer net, all of them saved."""
    until = Until(steps=steps)
    return Setup(
        fitted(key), NET, layers(key), dynamics, until, PATH, np.arange(steps + 1), key=key
    )


def path(run: Run) -> list[dict[str, np.ndarray]]:
    """All parameters at every save."""
    assert run.setup is not None
    names = list(run.setup.params)
    values = {name: run.data[f"params_{name}"].values for name in names}
    return [{n: values[n][i] for n in names} for i in range(len(values[names[0]]))]


def rates(setup: Setup, steps: int) -> np.ndarray:
    """The learning rates of the first steps."""
    assert isinstance(setup.dynamics, Steps)
    return np.diff(setup.dynamics.time(np.arange(steps + 1)))


def one_layer(
    key: int, dynamics: Dynamics, problem: Regression, steps: int, start: float = 0.0
) -> Setup:
    """A net of one layer, from (about) zero."""
    net = Deep([problem.d, problem.k])
    params = layers(key, net, start)
    return Setup(problem, net, params, dynamics, Until(steps=steps), PATH, [steps], key=key)
