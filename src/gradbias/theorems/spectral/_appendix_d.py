"""Appendix D: label-noise descent and its stochastic differential equation, in one clock.

What both do to a mode of eigenvalue μ, from rest, is known exactly while the layers stand still:
r' = (1 − ημ)r + ημε makes E r² = ημδ²(1 − ρ^k)/(2 − ημ), ρ = (1 − ημ)², and the equation
½ημδ²(1 − e^{−2μt}). So the O(η) between them is no allowance: it is part of the prediction.
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import xarray as xr

from ... import observe
from ...dynamics import Diffusion
from ...noise import LabelNoise
from ...problems import Regression
from .._shared_hypotheses import FITS
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Hypothesis,
    Measurements,
    Setup,
    Theorem,
    Until,
    measured,
)
from . import _instances_noise as cases
from . import _odd_parts as odd
from ._facts import rate_of
from ._instances import LR, SIZES, WIDTH, regression
from ._label_noise_end import FITTED, QUIET_LAYERS, spectrum
from ._paper import OF_NOISE

MEMBERS = 2000
STEPS = 400
STD = 0.1
FINER = 8  # steps of the equation in one of descent
LONGEST = 1000  # steps of so many members: the law is one of any time


def products(problem, net, params, gradient, lr):
    """R without noise times the noise in R, odd in it: chance, see `_odd_parts`."""
    a = params["W2"][:, 0]
    noisy = -gradient["W1"] @ a / (a @ a)
    pull = 2 * problem.weight * problem.X.T @ (problem.X @ params["W1"] @ a - problem.labels[:, 0])
    return lr * jnp.outer(pull, noisy + pull)


RECORD = {
    "params": observe.params,
    "area": observe.running(cases.area),
    "products": observe.running(products),
}


def both(setup: Setup) -> dict[str, Ensemble]:
    """Descent, and the SDE with noise √lr·δ in the time of gradient flow."""
    lr = rate_of(setup)
    noise = cases.noise_of(setup)
    assert noise is not None
    last = min(int(np.max(cases.steps_of(setup))), LONGEST)
    end = lr * last
    moves = Diffusion(lr, LabelNoise(float(noise.std)), lr / FINER)
    flow = setup.replace(dynamics=moves, until=Until(time=end), save_at=[0.0, end])
    steps = setup.replace(until=Until(steps=last), save_at=[0, last])

    def ensemble(first: Setup) -> Ensemble:
        def build(member: int) -> Setup:
            return first.replace(key=setup.key * MEMBERS + member, record=RECORD)

        return Ensemble(build, {"member": range(MEMBERS)})

    return {"descent": ensemble(steps), "sde": ensemble(flow)}


def measure_ratios(runs: Mapping[str, xr.Dataset]) -> Measurements:
    """Means over the members, descent over SDE: squares of the layers, and the loss on the way."""
    layers = [
        (n, lambda x, n=n: np.sum(x[f"params_{n}"].values[:, -1] ** 2, axis=(1, 2)))
        for n in ("W1", "W2")
    ]
    ratios = {}
    for name, of in (*layers, ("loss", lambda x: x["area"].values[:, -1])):
        both = [
            odd.mean(of(run), run["products"].values[:, -1].reshape(MEMBERS, -1))
            for run in runs.values()
        ]
        left, right = ((float(x.value), np.max(np.asarray(x.standard_error))) for x in both)
        ratio = left[0] / right[0]
        parts = left[1] / left[0], right[1] / right[0]
        ratios[name] = measured(ratio, standard_error=ratio * np.hypot(*parts))
    return ratios


def predict_ratios(setup: Setup, finite: float = 1.0) -> Claims:
    """One for the layers, and for the loss what their two steps make of every mode."""
    lr = rate_of(setup)
    mu = spectrum(setup, *(np.asarray(setup.params[name]) for name in ("W1", "W2")))
    time = lr * min(float(np.max(cases.steps_of(setup))), LONGEST)
    sums = [float(np.sum(_area(mu, h, time))) for h in (finite * lr, finite * lr / FINER)]
    return {"W1": 1.0, "W2": 1.0, "loss": sums[0] / sums[1]}


def _area(mu: np.ndarray, h: float, time: float) -> np.ndarray:
    """2/(lr δ²) times the integral of E r² by steps of h from rest, or exactly for h = 0."""
    mu = mu[mu > 1e-12 * mu.max()]
    if not h:
        return mu * time + np.expm1(-2 * mu * time) / 2
    left = np.exp(2 * (time / h) * np.log1p(-h * mu))
    return (mu * time - (1 - left) / (2 - h * mu)) / (1 - h * mu / 2)


def started(key: int, momentum: float = 0.0) -> Setup:
    """Label-noise descent from layers that fit: all that moves them is noise."""
    X = np.asarray(regression(key, k=1, whitened=True, like=SIZES[0]).X)
    params = cases.random_layers(key, X.shape[1], WIDTH)
    params = {name: 0.5 * layer for name, layer in params.items()}
    problem = Regression.half_sum(X, X @ (params["W1"] @ params["W2"]))
    return cases.descent(problem, params, key, LR, STD, STEPS, saves=2, momentum=momentum)


def _start_misfit(setup: Setup) -> float:
    problem = cases.data_of(setup)
    zero = np.zeros((problem.d, problem.k))
    whole = float(problem.loss(zero))
    now = float(problem.loss(np.asarray(setup.params["W1"]) @ np.asarray(setup.params["W2"])))
    return now / whole if whole > 0 else 1.0


AT_REST = Hypothesis("the start fits the labels", _start_misfit, FITS)


CLOCK = Theorem(
    "spectral.noise.clock",
    r"Label-noise descent with step $\eta$ has, up to $O(\eta)$, the law of $dW = -\nabla_WL\,dt+"
    r"\sqrt\eta\,\delta X^\top dB_t\,a^\top$, $da = -\nabla_aL\,dt+\sqrt\eta\,\delta "
    r"W^\top X^\top dB_t$ at the time $t = \eta k$ of $k$ steps.",
    hypotheses=[*cases.HYPOTHESES, FITTED, AT_REST, QUIET_LAYERS],
    predict=predict_ratios,
    measure=measure_ratios,
    tolerance=1e-3,
    terms={"the finite step": lambda setup: predict_ratios(setup, finite=0.0)},
    instances=started,
    controls=[Control("no momentum", lambda key: started(key, momentum=0.9))],
    runs=both,
    title="label noise as a diffusion",
    slow=True,
    paper=OF_NOISE,
)
