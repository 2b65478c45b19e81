"""Label noise beside the gradient: where it holds the loss, and where it takes the layers."""

from typing import Any

import numpy as np
import scipy.optimize
import xarray as xr

from ... import observe
from ...problems import Regression
from ...theory import label_noise_rank_one_limit
from ...theory.noise_only import LabelNoiseLimit
from .._shared_hypotheses import FITS
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Hypothesis,
    Measurements,
    Setup,
    Theorem,
    fact,
    kind,
    measured,
)
from . import _instances_noise as cases
from ._facts import I_GAMMA, WHITENED, rate_of, scale_of, star
from ._instances import SIZES, regression
from ._measurements import svdvals, transposed
from ._paper import OF_NOISE

QUIET = 1e-9  # label noise that does nothing
RESTING = 128  # members of the theorem about the loss
DRIFTING = 32  # of the one about the layers


def members(setup: Setup, count: int, **record: Any) -> Ensemble:
    """Independent draws of the noise."""

    def build(member: int) -> Setup:
        return setup.replace(key=setup.key * count + member, record=record)

    return Ensemble(build, {"member": range(count)})


def resting(setup: Setup) -> Ensemble:
    """Many draws: the loss fluctuates by its own size."""
    losses = observe.running(cases.loss_of_step)
    return members(setup, RESTING, params=observe.params, losses=losses)


def spectrum(setup: Setup, W1: np.ndarray, W2: np.ndarray) -> np.ndarray:
    """The eigenvalues μ of the Hessian in the directions that the labels see, (…, n)."""
    problem = cases.data_of(setup)
    X = np.asarray(problem.X)
    second = np.sum(W2**2, axis=(-2, -1))
    hidden = X @ W1
    K = hidden @ transposed(hidden) + second[..., None, None] * (X @ X.T)
    return 2 * float(problem.weight) * np.linalg.eigvalsh(K)


def predict_resting_loss(setup: Setup, runs: xr.Dataset, finite: float = 1.0) -> Claims:
    """(w lr δ²/2)Σμ/(1 − lr μ/2), averaged over the second half of the runs."""
    noise = cases.noise_of(setup)
    assert noise is not None
    steps = cases.steps_of(setup)
    late = steps >= steps[-1] / 2
    mu = spectrum(setup, *(runs[f"params_{n}"].values[:, late] for n in ("W1", "W2")))
    lr = rate_of(setup)
    scale = float(cases.data_of(setup).weight) * lr * float(noise.std) ** 2 / 2
    rates = np.mean(np.sum(mu / (1 - finite * lr * mu / 2), axis=2), axis=0)
    return {"loss": scale * float(np.average(_between(rates), weights=np.diff(steps[late])))}


def _late(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The saves in the second half of the run, however they are spaced."""
    return values[steps >= steps[-1] / 2]


def _between(values: np.ndarray) -> np.ndarray:
    """The means of neighbours."""
    return (values[1:] + values[:-1]) / 2


def measure_resting_loss(runs: xr.Dataset) -> Measurements:
    """Over every step of the second half."""
    steps = runs["step"].values
    first = int(np.argmax(steps >= steps[-1] / 2))
    losses = runs["losses"].values
    means = (losses[:, -1] - losses[:, first]) / (steps[-1] - steps[first])
    error = means.std(ddof=1) / np.sqrt(len(means))
    return {"loss": measured(means.mean(), standard_error=error)}


@fact
def end(setup: Setup) -> LabelNoiseLimit:
    """The flattest layers for the predictor of least norm."""
    problem = cases.data_of(setup)
    return label_noise_rank_one_limit(np.ravel(problem.min_norm), np.asarray(problem.X))


def _sizes(setup: Setup) -> tuple[float, float]:
    """The step times half the trace of the Hessian, and the variance of the layers, relative."""
    problem = cases.data_of(setup)
    noise = cases.noise_of(setup)
    flat = end(setup)
    if noise is None or not len(flat.W1):
        return 1.0, 1.0
    weight = float(problem.weight)
    lr = rate_of(setup)
    spread = weight * lr * float(noise.std) ** 2 * problem.row_space.shape[1]
    size = min(float(flat.W1[0]), float(flat.W2[0])) ** 2
    return lr * 2 * weight * flat.trace / 4, spread / size


# The finite step is in the formula: what is left of it is the square.
SECOND = Hypothesis(
    "step and noise are small",
    lambda s: _sizes(s)[0] ** 2 + _sizes(s)[1],
    0.25,
    True,
    "O(lr²) + O(lr δ²)",
)
# The finite step is in the formula exactly, for layers that stand still.
QUIET_LAYERS = Hypothesis(
    "the noise hardly moves the layers", lambda s: _sizes(s)[1], 0.25, True, "O(lr δ²)"
)


def _misfit(setup: Setup) -> float:
    """The least loss, over that of zero."""
    problem = cases.data_of(setup)
    whole = float(problem.loss(np.zeros((problem.d, problem.k))))
    return problem.min_loss / whole if whole > 0 else 1.0


FITTED = Hypothesis("labels can be fitted and are not zero", _misfit, FITS)


def unfitted(key: int) -> Setup:
    """Labels that cannot be fitted: the rows are parallel, the labels are not."""
    setup = cases.training(key)
    labels = regression(key, k=1, whitened=True, like=SIZES[0]).labels
    problem = Regression(cases.one_direction(key), labels, cases.data_of(setup).weight)
    return setup.replace(problem=problem)


def _late_saves(setup: Setup) -> int:
    return len(_late(cases.steps_of(setup), cases.steps_of(setup)))


MANY = kind("five saves or more are in the second half of the run", lambda s: _late_saves(s) >= 5)


def _settling(setup: Setup) -> float:
    """What is left of the first loss in the middle of the run, over what the noise holds.

    The slowest rate is that of the flattest layers for the predictor of least norm.
    """
    problem = cases.data_of(setup)
    noise = cases.noise_of(setup)
    flat = end(setup)
    assert noise is not None
    weight = float(problem.weight)
    lr = rate_of(setup)
    last = cases.steps_of(setup)[-1]
    slowest = 2 * weight * float(flat.W2[0]) ** 2 * float(problem.svd[1][problem.rank - 1]) ** 2
    zero = np.zeros((problem.d, problem.k))
    held = weight * lr * float(noise.std) ** 2 * weight * flat.trace
    return float(problem.loss(zero)) / held * float(np.exp(-lr * slowest * last))


SETTLED = Hypothesis("the first loss is forgotten in half of the run", _settling, 1e-3)

STATIONARY = Theorem(
    "spectral.noise.loss",
    r"Label noise of standard deviation $\delta$ holds the loss $\frac{1}{2}\|X\beta-y\|^2$ at "
    r"$\frac{\eta\delta^2}{4}\sum_i\mu_i/(1-\eta\mu_i/2)$, $\mu_i$ the non-zero eigenvalues of the "
    r"Hessian: in the time of gradient flow the noise has the strength $\sqrt\eta\,\delta$.",
    hypotheses=[*cases.HYPOTHESES, FITTED, MANY, QUIET_LAYERS, SETTLED],
    predict=predict_resting_loss,
    measure=measure_resting_loss,
    tolerance=2e-3,
    instances=lambda key: cases.training(key, std=0.1, lr=0.1, steps=20_000, saves=11),
    controls=[Control("labels can be fitted", unfitted)],
    terms={"the finite step": lambda setup, runs: predict_resting_loss(setup, runs, finite=0.0)},
    runs=resting,
    given=("path",),
    errata=[
        Erratum(
            "Section 4.1, SDE with drift",
            r"$\delta\,dB_t$ beside the drift $-\nabla L\,dt$, with $\delta$ the scale of "
            "the noise",
            r"for label noise of standard deviation $\delta$, as in Appendix D, that "
            r"scale is $\sqrt\eta\,\delta$",
            "convention",
            quote=r"\delta (d\mathbf{B}_t) \mathbf{a}^\top, \quad d\mathbf{a} = "
            r"-\nabla_{\mathbf{a}} \mathcal{L}(\mathbf{W}, \mathbf{a}) dt + \delta "
            r"\mathbf{W}^\top d\mathbf{B}_t",
            note="Noise alone has the unit process as its limit at the time (ηδ)² times the steps.",
        )
    ],
    title="where label noise holds the loss",
    paper=OF_NOISE,
    own=True,
)


def predict_decay(setup: Setup, strength: float = 1.0, finite: float = 1.0) -> Claims:
    """The log of how far the small singular values have fallen, and the ends of the layers.

    A step η > 0 makes Σμ into −(2/η)Σlog(1 − ημ/2), with c(p + q) and r − 1 times cq for μ at
    p = σ_1(W1)², q = |a|² and pq = |β*|²: p/q is r up to O(η).
    """
    size = float(star(setup)[0])
    rank = cases.data_of(setup).row_space.shape[1]
    half = finite * rate_of(setup) * scale_of(setup) / 2

    def slope(ratio: float) -> float:
        p = size * np.sqrt(ratio)
        q = size / np.sqrt(ratio)
        return (1 - ratio) / (1 - half * (p + q)) + (rank - 1) / (1 - half * q)

    found: Any = scipy.optimize.brentq(slope, 1.0, rank, xtol=1e-14)
    q = size / np.sqrt(found)
    kick = cases.kick(setup) * strength
    row = float(np.linalg.norm(cases.data_of(setup).X, 2)) ** 2
    rate = kick**2 * row / 2 / (1 - half * q)
    return {
        "tail": -rate * float(np.max(cases.steps_of(setup))),
        "W1": float(np.sqrt(size * np.sqrt(found))),
        "W2": float(np.sqrt(q)),
    }


def drifting(setup: Setup) -> Ensemble:
    """Draws: the layers wander along the minima as slowly as their tail falls."""
    basis = cases.data_of(setup).row_space

    def seen(problem, net, params):
        return basis.T @ params["W1"]

    second = observe.params
    return members(setup, DRIFTING, seen=seen, params=second)


def measure_decay(runs: xr.Dataset) -> Measurements:
    """Of the part of W1 that the data see; of the tail the mean, for its order is chance."""
    values = svdvals(runs["seen"].values)
    steps = runs["step"].values
    tail = np.log(values[:, -1, 1:] / values[:, 0, 1:]).mean(axis=1)
    sizes = {
        "W1": values[:, steps >= steps[-1] / 2, 0].mean(axis=1),
        "W2": np.linalg.norm(
            runs["params_W2"].values[:, steps >= steps[-1] / 2, :, 0], axis=2
        ).mean(axis=1),
        "tail": tail,
    }
    return {
        name: measured(x.mean(), standard_error=x.std(ddof=1) / np.sqrt(len(x)))
        for name, x in sizes.items()
    }


def _enough_steps(setup: Setup) -> float:
    """What is left of the small singular values in the middle of the run."""
    steps = cases.steps_of(setup)
    return float(np.exp(-(cases.kick(setup) ** 2) * scale_of(setup) * np.max(steps) / 8))


LONG_ENOUGH = Hypothesis("the run is long", _enough_steps, 0.9)

LASTING = 0.25


def lasting(key: int, std: float = LASTING) -> Setup:
    """Until the tail has fallen by four to twelve e-folds."""
    return cases.training(key, std=std, steps=320_000)


SLOW = Theorem(
    "spectral.noise.slow",
    r"On whitened data label noise moves the layers along the minima down the trace of the "
    r"Hessian: the small singular values of $W_1$ fall as $e^{-\eta^2\delta^2c\,k/2}$ in $k$ "
    r"steps, $A = cI$, and what is left has rank one, $\sigma_1(W_1)^2 = \sqrt{r}\,|\beta^*|$ and "
    r"$|a|^2 = |\beta^*|/\sqrt{r}$, $r$ the rank of the data.",
    hypotheses=[*cases.HYPOTHESES, WHITENED, I_GAMMA, FITTED, MANY, SECOND, LONG_ENOUGH],
    predict=predict_decay,
    measure=measure_decay,
    tolerance=2e-3,
    instances=lasting,
    controls=[
        Control(
            "labels have noise",
            lambda key: lasting(key, std=QUIET),
            lambda setup: predict_decay(setup, LASTING / QUIET),
        )
    ],
    terms={"the finite step": lambda setup: predict_decay(setup, finite=0.0)},
    runs=drifting,
    title="label noise ends at rank one",
    slow=True,
    paper=OF_NOISE,
    own=True,
)
