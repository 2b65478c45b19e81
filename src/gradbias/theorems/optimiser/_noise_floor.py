"""What noise alone makes of Adam's updates and of weights under AdamW."""

import numpy as np

from ...dynamics import Adam, gradient
from ...nets import Deep
from ...noise import Isotropic
from ...numerics.precision import host
from ...problems import Regression
from ...theory.optimisers import noise_rms, update_rms
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measured,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    kind,
    measured,
    setup_of,
)
from . import _instances as cases
from ._papers import ROTATION

PERIODS = 3.5  # of 1/(ηλ) steps: e⁻⁷ of the mean square is still to come


def late(setup: Setup) -> dict[str, Setup]:
    """Two successive states at the end."""
    rate = float(cases.rates(setup, 1)[0]) * float(setup.dynamics.weight_decay)
    steps = int(np.ceil(PERIODS / rate))
    return {"run": setup.replace(until=Until(steps=steps + 1), save_at=[steps, steps + 1])}


def predict(setup: Setup) -> Claims:
    moves = cases.adam(setup)
    lr = float(cases.rates(setup, 1)[0])
    return {
        "update": update_rms(float(moves.betas[0])),
        "weight": noise_rms(lr, float(moves.weight_decay)),
    }


def measure(run: Run) -> Measurements:
    """Root mean squares over all coordinates, which are independent."""
    setup = setup_of(run)
    before, after = cases.path(run)
    lr = cases.rates(setup, 1)[0]
    decay = float(setup.dynamics.weight_decay)
    steps = np.concatenate([np.ravel(after[n] - (1 - lr * decay) * w) for n, w in before.items()])
    weights = np.concatenate([np.ravel(w) for w in after.values()])
    found = {"update": steps / lr, "weight": weights}
    return {name: _rms(values) for name, values in found.items()}


def _rms(values: np.ndarray) -> Measured:
    squares = values * values
    rms = float(np.sqrt(squares.mean()))
    return measured(rms, standard_error=squares.std() / len(values) ** 0.5 / (2 * rms))


@host
def seen(setup: Setup) -> float:
    """The largest entry of the mean gradient at the start over the deviation of the noise."""
    noise = cases.optimiser(setup).noise
    assert isinstance(noise, Isotropic)
    grads = gradient(setup.problem, setup.net, setup.params)
    largest = max(float(np.abs(g).max()) for g in grads.values())
    return largest / float(noise.std)


def slow(setup: Setup) -> float:
    """What is left out: ηλ beside 1 − β₁, and 1 − β₂ beside 1."""
    rate = float(cases.rates(setup, 1)[0]) * float(setup.dynamics.weight_decay)
    first, second = (float(beta) for beta in cases.adam(setup).betas)
    return rate / (1 - first) + (1 - second) / 2


def instance(key: int, decoupled: bool = True, pull: float = 1e-9) -> Setup:
    """Forty thousand weights in a field of noise, beside a loss that hardly pulls."""
    rng = cases.draws(key, "noise")
    X = rng.standard_normal((4, 200))
    problem = Regression(X, rng.standard_normal((4, 200)), pull)
    moves = Adam(0.01, (0.8, 0.999), 0.0, 0.1, decoupled, Isotropic(5.0))
    return cases.one_layer(key, moves, problem, 100)


THEOREMS = (
    Theorem(
        "optimiser.noise_floor",
        r"Where gradients are white noise, Adam's updates have the root mean square "
        r"$\sqrt{(1-\beta_1)/(1+\beta_1)}$, and weights under decoupled decay "
        r"$\sqrt{\eta/2\lambda}$, whatever $\beta_1$.",
        hypotheses=[
            kind("noise is isotropic", lambda s: isinstance(cases.adam(s).noise, Isotropic)),
            kind("decay is decoupled", lambda s: cases.adam(s).decoupled),
            kind("there is decay", lambda s: float(s.dynamics.weight_decay) > 0),
            kind("the step is constant", lambda s: not callable(cases.adam(s).lr)),
            kind("there is no ε", lambda s: float(cases.adam(s).eps) == 0),
            Hypothesis("gradients are noise", seen, 1e-4),
            Hypothesis("decay is slow", slow, 0.03, True, "O(ηλ/(1 − β₁))"),
        ],
        predict=predict,
        measure=measure,
        tolerance=2e-3,
        instances=instance,
        controls=[
            Control("decay is decoupled", lambda key: instance(key, False)),
            Control("gradients are noise", lambda key: instance(key, pull=30.0)),
        ],
        runs=late,
        nets=(Deep,),
        dynamics=(Adam,),
        needs=cases.PATH,
        paper=ROTATION,
        title="what noise makes of AdamW",
        slow=True,
        own=True,
    ),
)
