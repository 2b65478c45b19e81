"""How much of a gradient is signal, told by the size of Adam's steps."""

import numpy as np
import scipy.optimize

from ...dynamics import Adam
from ...nets import Deep
from ...noise import Isotropic
from ...problems import Regression
from ...theory.optimisers import signal_share, update_rms
from ..prelude import Claims, Control, Hypothesis, Measurements, Run, Setup, Theorem, Until, kind
from . import _instances as cases
from ._noise_floor import measure as both_sizes
from ._papers import ROTATION

MEMORIES = 5  # of 1/(1 − β₂) steps


def late(setup: Setup) -> dict[str, Setup]:
    """Two successive states, when Adam's averages have forgotten the start."""
    steps = int(np.ceil(MEMORIES / (1 - float(cases.adam(setup).betas[1]))))
    return {"run": setup.replace(until=Until(steps=steps + 1), save_at=[steps, steps + 1])}


def slopes(setup: Setup) -> np.ndarray:
    """The mean gradient of a net of one layer at zero, by hand."""
    problem = setup.problem
    assert isinstance(problem, Regression)
    X = np.asarray(problem.X)
    return -2 * float(problem.weight) * X.T @ np.asarray(problem.labels)


def deviation(setup: Setup) -> float:
    noise = cases.adam(setup).noise
    assert isinstance(noise, Isotropic)
    return float(noise.std)


def predict(setup: Setup) -> Claims:
    """The size u at which `signal_share` says what the share is."""
    squares = float(np.mean(slopes(setup) ** 2))
    share = squares / (squares + deviation(setup) ** 2)
    beta = float(cases.adam(setup).betas[0])
    found = scipy.optimize.root_scalar(
        lambda u: float(signal_share(u, beta)) - share,
        bracket=(update_rms(beta), 1.0),
        xtol=1e-14,
    )
    return {"update": float(found.root)}


def without_memory(setup: Setup) -> Claims:
    """u² = μ²/(μ² + σ²), as if β₁ took all of the noise away."""
    squares = float(np.mean(slopes(setup) ** 2))
    return {"update": np.sqrt(squares / (squares + deviation(setup) ** 2))}


def measure(run: Run) -> Measurements:
    return {"update": both_sizes(run)["update"]}


def uneven(setup: Setup) -> float:
    """How far the entries of the mean gradient are from one size."""
    sizes = np.abs(slopes(setup))
    return float(sizes.max() / sizes.min() - 1) if sizes.min() > 0 else np.inf


def moved(setup: Setup) -> float:
    """By how much the mean gradient changes on the way, at most."""
    problem = setup.problem
    assert isinstance(problem, Regression)
    way = float(cases.rates(setup, 1)[0]) * MEMORIES / (1 - float(cases.adam(setup).betas[1]))
    outputs = way * np.abs(np.asarray(problem.X)).sum(axis=1).max()
    return float(outputs / np.abs(np.asarray(problem.labels)).min())


def forgetful(setup: Setup) -> float:
    """1 − β₂ beside 1: √v fluctuates."""
    return (1 - float(cases.adam(setup).betas[1])) / 2


def instance(key: int, spread: float = 0.0) -> Setup:
    """Forty thousand weights with a gradient of one size, and noise two or three times as large."""
    rng = cases.draws(key, "signal")
    x = rng.choice((-1.0, 1.0), (1, 200))
    labels = 1e6 * rng.choice((-1.0, 1.0), (1, 200)) * np.exp(spread * rng.standard_normal(200))
    problem = Regression(x, labels, 0.5e-6)
    noise = Isotropic(rng.uniform(2, 3))
    return cases.one_layer(key, Adam(1e-4, (0.9, 0.997), 0.0, 0.1, noise=noise), problem, 100)


THEOREMS = (
    Theorem(
        "optimiser.signal_share",
        r"Where gradients are a mean $\mu$ and white noise $\sigma$, the root mean square $u$ of "
        r"Adam's updates tells $\mu^2/(\mu^2+\sigma^2) = (u^2-f)/(1-f)$, "
        r"$f = (1-\beta_1)/(1+\beta_1)$.",
        hypotheses=[
            kind("there is one layer", lambda s: len(s.params) == 1),
            kind("noise is isotropic", lambda s: isinstance(cases.adam(s).noise, Isotropic)),
            kind("it starts at zero", lambda s: not any(np.any(p) for p in s.params.values())),
            kind("decay is decoupled", lambda s: cases.adam(s).decoupled),
            kind("the step is constant", lambda s: not callable(cases.adam(s).lr)),
            kind("there is no ε", lambda s: float(cases.adam(s).eps) == 0),
            Hypothesis("the mean gradient is of one size", uneven, 1e-6),
            Hypothesis("the mean gradient stays", moved, 1e-3),
            Hypothesis("β₂ is near 1", forgetful, 0.01, True, "O(1 − β₂)"),
        ],
        predict=predict,
        measure=measure,
        tolerance=2e-3,
        instances=instance,
        controls=[
            Control("the mean gradient is of one size", lambda key: instance(key, spread=2.0)),
            Control("without what noise leaves", instance, without_memory, formula=True),
        ],
        runs=late,
        nets=(Deep,),
        problems=(Regression,),
        dynamics=(Adam,),
        needs=cases.PATH,
        paper=ROTATION,
        title="the share of signal in a gradient",
        own=True,
    ),
)
