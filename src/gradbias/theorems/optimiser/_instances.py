"""Instances: six samples, six inputs, four hidden units, three outputs; one output where said."""

import numpy as np

from ... import observe
from ...dynamics import Adam, Descent, Dynamics, Muon, Optimiser, Steepest
from ...nets import Deep, Net, TwoLayer
from ...noise import DataNoise
from ...numerics.host_rng import generator
from ...problems import Regression
from ..prelude import Hypothesis, Run, Setup, Until, kind

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


def optimiser(setup: Setup) -> Optimiser:
    """What takes the steps."""
    assert isinstance(setup.dynamics, Optimiser)
    return setup.dynamics


def descent(setup: Setup) -> Descent:
    """The same, for theorems about descent."""
    assert isinstance(setup.dynamics, Descent)
    return setup.dynamics


def adam(setup: Setup) -> Adam:
    """The same, for theorems about Adam."""
    assert isinstance(setup.dynamics, Adam)
    return setup.dynamics


def muon(setup: Setup) -> Muon:
    """The same, for theorems about Muon."""
    assert isinstance(setup.dynamics, Muon)
    return setup.dynamics


def steepest(setup: Setup) -> Steepest:
    """The same, for theorems about steepest descent."""
    assert isinstance(setup.dynamics, Steepest)
    return setup.dynamics


def from_data() -> Hypothesis:
    """No noise is added to the gradient."""
    name = "steps see the data only"
    return kind(name, lambda s: isinstance(optimiser(s).noise, DataNoise | None))


def rates(setup: Setup, steps: int) -> np.ndarray:
    """The learning rates of the first steps."""
    return np.diff(optimiser(setup).time(np.arange(steps + 1)))


def one_layer(
    key: int, dynamics: Dynamics, problem: Regression, steps: int, start: float = 0.0
) -> Setup:
    """A net of one layer, from (about) zero."""
    net = Deep([problem.d, problem.k])
    params = layers(key, net, start)
    return Setup(problem, net, params, dynamics, Until(steps=steps), PATH, [steps], key=key)
