"""The fast time of two: the loss falls at a rate that does not know the noise."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Minibatch
from ...problems import Population
from ...theory.symmetry import equilibration_time, time_scales
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Hypothesis,
    Measurements,
    Setup,
    Theorem,
    Until,
    common,
    measured,
)
from . import _instances as cases
from ._facts import kappa, sgd
from ._measurements import EXACT, draws
from ._one_input_one_output import FRESH, LR, of_scalars, off, scalar
from ._paper import PAPER

MEMBERS = 6144
AWAY = 1e-4  # of the layers: by so much is the second start off the minimum
FOLDS = 1.5  # times that the misfit shrinks by e
LOUD = Minibatch(1)  # beside the batches of the setup
FINER = 2


def curvature(setup: Setup) -> float:
    """2φ(|U|² + |W|²), the eigenvalue of the Hessian across the minima."""
    problem = common.population(setup)
    squares = sum(float(np.sum(np.square(setup.params[n]))) for n in ("W1", "W2"))
    return 2 * float(problem.weight) * float(problem.sigma_x[0, 0]) * squares


def pairs(setup: Setup) -> dict[str, Ensemble]:
    """From the minimum and from beside it with the same draws: by batches, for two steps each."""
    lr = common.learning_rate(setup)
    moves = setup.dynamics
    assert isinstance(moves, Descent)
    steps = max(1, round(FOLDS / (lr * curvature(setup))))
    kept = setup.replace(record=cases.PARAMS)
    W1, W2 = (np.asarray(setup.params[name]) for name in ("W1", "W2"))
    beside = {"W1": W1 + AWAY * W2.T, "W2": W2 + AWAY * W1.T}  # along the gradient of UW
    runs: dict[str, Ensemble] = {}
    for batch, noise in (("own", moves.noise), ("loud", LOUD)):
        for step, finer in (("step", 1), ("half", FINER)):
            last = finer * steps
            given = {
                "dynamics": Descent(lr / finer, noise, moves.momentum, moves.weight_decay),
                "until": Until(steps=last),
                "save_at": [0, last],
            }
            for start, params in (("at", setup.params), ("beside", beside)):
                name = f"{batch} {step} {start}"
                runs[name] = draws(kept, MEMBERS, params=params, **given)
    return runs


def predict_fit(setup: Setup) -> Claims:
    """One over the fast time, for both batches; and that it is the fast one."""
    problem = common.population(setup)
    slow = 1 / equilibration_time(problem.sigma_x, problem.sigma_eps, kappa(setup))
    scales = time_scales(curvature(setup), slow)
    return {"rate": np.full(2, 1 / scales.fit)}


def predict_by_noise(setup: Setup) -> Claims:
    """A time that is inversely proportional to κ, as that of the charges."""
    batch = common.minibatch(setup)
    assert batch is not None
    return {"rate": curvature(setup) * np.array([1.0, batch.batch_size / LOUD.batch_size])}


def measure_fit(runs: Mapping[str, xr.Dataset]) -> Measurements:
    """The rate at which what the same draws make of two starts comes together, lr → 0."""
    rates = [[_rate(runs, f"{batch} {step}") for step in ("step", "half")] for batch in BATCHES]
    value = [FINER * half[0] - step[0] for step, half in rates]
    error = [np.hypot(FINER * half[1], step[1]) for step, half in rates]
    return {"rate": measured(value, standard_error=error)}


BATCHES = ("own", "loud")


def _rate(runs: Mapping[str, xr.Dataset], name: str) -> tuple[float, float]:
    at, beside = (_product(runs[f"{name} {start}"]) for start in ("at", "beside"))
    apart = beside - at
    left = apart[:, -1] / apart[:, 0]
    time = float(np.ravel(runs[f"{name} at"]["time"].values)[-1])
    mean = float(left.mean())
    error = float(left.std(ddof=1)) / np.sqrt(len(left))
    return -np.log(mean) / time, error / (mean * time)


def _product(run: xr.Dataset) -> np.ndarray:
    """UW, (members, saves)."""
    return np.sum(run["params_W1"].values[:, :, 0] * run["params_W2"].values[..., 0], axis=-1)


FAST = Theorem(
    "equilibrium.timescales.fast",
    r"Before the charges, the loss: beside a minimum the misfit shrinks in a time $1/h$ of one "
    r"over the curvature, whatever $\kappa$ is.",
    hypotheses=[
        *of_scalars(),
        *sgd(),
        Hypothesis("the start is a minimum", off, 1e-8),
        Hypothesis(
            "the step is small",
            lambda s: (common.learning_rate(s) * curvature(s)) ** 2,
            0.04,
            graded=True,
            order="O(lr²)",
        ),
    ],
    predict=predict_fit,
    measure=measure_fit,
    tolerance=EXACT,
    instances=scalar,
    controls=[
        Control("a time that noise decides", scalar, predict_by_noise, formula=True),
        Control(
            "there is no momentum",
            lambda key: scalar(key).replace(dynamics=Descent(LR, FRESH, 0.5)),
        ),
    ],
    runs=pairs,
    nets=(TwoLayer,),
    needs=cases.PARAMS,
    problems=(Population,),
    dynamics=(Descent,),
    paper=PAPER,
    title="time to fit",
    slow=True,
)

THEOREMS = (FAST,)
