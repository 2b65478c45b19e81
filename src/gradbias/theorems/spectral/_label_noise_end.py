"""Label noise beside the gradient: where it holds the loss, and where it takes the layers."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...problems import Regression
from ...theory import label_noise_rank_one_limit
from .._claims import measured
from .._erratum import Erratum
from .._hypothesis import Hypothesis, kind
from .._per_setup import fact
from .._shared_hypotheses import FITS
from .._theorem import Control, Theorem
from . import _instances_noise as cases
from ._errata_noise import printed_clock
from ._facts import I_GAMMA, WHITENED, rate_of, scale_of
from ._instances import regression
from ._measurements import path, svdvals, transposed

QUIET = 1e-9  # label noise that does nothing


def _spectrum(setup: Setup, layers: Any) -> np.ndarray:
    """The eigenvalues μ of the Hessian in the directions that the labels see, (saves, n)."""
    problem = cases.data_of(setup)
    X, second = np.asarray(problem.X), np.sum(layers.W2**2, axis=(1, 2))
    seen = X @ layers.W1
    K = seen @ transposed(seen) + second[:, None, None] * (X @ X.T)
    return 2 * float(problem.weight) * np.linalg.eigvalsh(K)


def _resting_loss(setup: Setup, runs: Any) -> dict[str, Any]:
    """(w lr δ²/2)Σμ/(1 − lr μ/2), averaged over the second half of the run."""
    noise = cases.noise_of(setup)
    assert noise is not None
    mu, lr = _spectrum(setup, path(runs["run"])), rate_of(setup)
    scale = float(cases.data_of(setup).weight) * lr * float(noise.std) ** 2 / 2
    steps = cases.steps_of(setup)
    rates = _late(steps, np.sum(mu / (1 - lr * mu / 2), axis=1))
    return {
        "loss": scale * float(np.average(_between(rates), weights=np.diff(_late(steps, steps))))
    }


def _late(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The saves in the second half of the run, however they are spaced."""
    return values[steps >= steps[-1] / 2]


def _between(values: np.ndarray) -> np.ndarray:
    """The means of neighbours."""
    return (values[1:] + values[:-1]) / 2


def _mean_loss(runs: Any) -> dict[str, Any]:
    """Over every step of the second half; neighbouring saves are far apart."""
    run = runs["run"]
    steps = cases.steps_of(run.setup)
    area, time = (np.diff(_late(steps, x)) for x in (run.data["area"].values, steps))
    blocks = area / (rate_of(run.setup) * time)
    error = blocks.std(ddof=1) / np.sqrt(len(blocks))
    return {"loss": measured(np.average(blocks, weights=time), standard_error=error)}


@fact
def end(setup: Setup) -> Any:
    """The flattest layers for the predictor of least norm."""
    problem = cases.data_of(setup)
    return label_noise_rank_one_limit(np.ravel(problem.min_norm), np.asarray(problem.X))


def _first_order(setup: Setup) -> float:
    """The step times half the trace of the Hessian, and the variance of the layers, relative."""
    problem, noise, flat = cases.data_of(setup), cases.noise_of(setup), end(setup)
    if noise is None or not len(flat.W1):
        return 1.0
    weight, lr = float(problem.weight), rate_of(setup)
    spread = weight * lr * float(noise.std) ** 2 * problem.row_space.shape[1]
    size = min(float(flat.W1[0]), float(flat.W2[0])) ** 2
    return lr * 2 * weight * flat.trace / 4 + spread / size


SMALL = Hypothesis("step and noise are small", _first_order, 0.25, True, "O(lr)")


def _misfit(setup: Setup) -> float:
    """The least loss, over that of zero."""
    problem = cases.data_of(setup)
    whole = float(problem.loss(np.zeros((problem.d, problem.k))))
    return problem.min_loss / whole if whole > 0 else 1.0


FITTED = Hypothesis("labels can be fitted and are not zero", _misfit, FITS)


def unfitted(key: int) -> Setup:
    """Labels that cannot be fitted: the rows are parallel, the labels are not."""
    setup = cases.training(key)
    labels = regression(key, k=1, whitened=True).labels
    problem = Regression(cases.one_direction(key), labels, cases.data_of(setup).weight)
    return setup.replace(problem=problem)


def _late_saves(setup: Setup) -> int:
    return len(_late(cases.steps_of(setup), cases.steps_of(setup)))


MANY = kind("five saves or more are in the second half of the run", lambda s: _late_saves(s) >= 5)


def _settling(setup: Setup) -> float:
    """What is left of the first loss in the middle of the run, over what the noise holds.

    The slowest rate is that of the flattest layers for the predictor of least norm.
    """
    problem, noise, flat = cases.data_of(setup), cases.noise_of(setup), end(setup)
    assert noise is not None
    weight, lr, last = float(problem.weight), rate_of(setup), cases.steps_of(setup)[-1]
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
    [*cases.HYPOTHESES, FITTED, MANY, SMALL, SETTLED],
    _resting_loss,
    _mean_loss,
    0.02,
    cases.training,
    [Control("labels can be fitted", unfitted)],
    needs=cases.RECORD,
    given=("path",),
    errata=[
        Erratum(
            "Section 4.1, SDE with drift",
            r"noise $\delta\,dB_t$ beside the drift $-\nabla L\,dt$",
            r"$\sqrt\eta\,\delta\,dB_t$; the form of Appendix D, $\eta\nabla L\,dt$ and "
            r"$\eta\delta\,dB_t$, is right with steps as time",
            "numeric",
            printed_clock,
            "Noise alone has the unit process as its limit at the time (ηδ)² times the steps.",
        )
    ],
    title="where label noise holds the loss",
    **cases.ABOUT,
)


def _decay(setup: Setup, runs: Any = None, std: float | None = None) -> dict[str, Any]:
    """Logarithms of how far the small singular values have fallen, and the ends of the layers."""
    noise, problem, flat = cases.noise_of(setup), cases.data_of(setup), end(setup)
    assert noise is not None
    kick = cases.kick(setup) if std is None else cases.kick(setup) * std / float(noise.std)
    row = float(np.linalg.norm(problem.X, 2)) ** 2
    steps = _late(cases.steps_of(setup), cases.steps_of(setup))
    tail = np.repeat(-(kick**2) * row * steps[:, None] / 2, problem.row_space.shape[1] - 1, axis=1)
    return {"tail": tail, "W1": float(flat.W1[0]), "W2": float(flat.W2[0])}


def _fallen(runs: Any) -> dict[str, Any]:
    """Of the part of W1 that the data see."""
    run = runs["run"]
    layers, basis = path(run), run.setup.problem.row_space
    values = svdvals(basis.T @ layers.W1)
    steps = cases.steps_of(run.setup)
    tail = _late(steps, np.log(values[:, 1:] / values[:1, 1:]))
    sizes = {"W1": values[:, 0], "W2": np.linalg.norm(layers.W2[:, :, 0], axis=1)}
    # They wander along the minima as slowly as the tail falls: four blocks, not twenty saves.
    parts = {name: np.array_split(_late(steps, x), 4) for name, x in sizes.items()}
    blocks = {name: [b.mean() for b in part] for name, part in parts.items()}
    ends = {
        name: measured(np.mean(b), standard_error=np.std(b, ddof=1) / 2)
        for name, b in blocks.items()
    }
    return {"tail": tail, **ends}


def _enough_steps(setup: Setup) -> float:
    """What is left of the small singular values in the middle of the run."""
    steps = cases.steps_of(setup)
    return float(np.exp(-(cases.kick(setup) ** 2) * scale_of(setup) * np.max(steps) / 8))


LONG_ENOUGH = Hypothesis("the run is long", _enough_steps, 0.9)

SLOW = Theorem(
    "spectral.noise.slow",
    r"On whitened data label noise moves the layers along the minima down the trace of the "
    r"Hessian: the small singular values of $W_1$ fall as $e^{-\eta^2\delta^2c\,k/2}$ in $k$ "
    r"steps, $A = cI$, and what is left has rank one, $\sigma_1(W_1)^2 = \sqrt{r}\,|\beta^*|$ and "
    r"$|a|^2 = |\beta^*|/\sqrt{r}$, $r$ the rank of the data.",
    [*cases.HYPOTHESES, WHITENED, I_GAMMA, FITTED, MANY, SMALL, LONG_ENOUGH],
    _decay,
    _fallen,
    {"tail": 0.02, "W1": 0.02, "W2": 0.02},
    cases.training,
    [
        Control(
            "labels have noise",
            lambda key: cases.training(key, std=QUIET),
            lambda setup: _decay(setup, std=cases.STD),
        )
    ],
    needs=cases.RECORD,
    title="label noise ends at rank one",
    **cases.ABOUT,
)
