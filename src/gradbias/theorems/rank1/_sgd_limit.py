"""Where SGD ends, told without running it, against ensembles; and the noise that does it."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import xarray as xr

from ... import observe
from ...dynamics import Descent
from ...noise import Minibatch
from ...problems import Regression
from ...theory import sde_coefficients
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Hypothesis,
    Measured,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    Until,
    common,
    equals,
    kind,
    limit,
    measured,
    setup_of,
)
from . import _instances as cases
from ._facts import USEFUL, moved_end, sharpness, step_error
from ._finite_step import first_order
from ._paper import RANK1_STEPS
from ._sde import scaled
from ._sgd_gap import BATCH, LONG, OF_GAPS, at_rest, short

MEMBERS = 600
Noise = Literal["isotropic", "sampling"]
FOREVER = 1e5
PARTS = (1, 2)  # of the learning rate
PAIRS = ((0.7, 0.001), (1.0, 0.0005), (0.3, 0.001))  # scale of the start, learning rate


def both_kinds(setup: Setup) -> dict[str, Setup | Ensemble]:
    """Gradient flow, and many draws of SGD with the step and with half of it."""
    problem = common.regression(setup)
    lr = common.learning_rate(setup)
    noise = common.minibatch(setup)
    record = {"gap": observe.gap, "away": observe.distance_to(problem.min_norm)}
    first = setup.replace(record=record, save_at=[0])
    until = setup.until
    steps = None if until.steps is None else PARTS[-1] * until.steps
    last = Until(steps, until.time, until.gap, until.check_every)

    def build(part: int, member: int) -> Setup:
        key = setup.key * MEMBERS + int(member)
        dynamics = Descent(lr / int(part), noise)
        return first.replace(dynamics=dynamics, until=last, key=key)

    flow = first.replace(dynamics=cases.TIGHT, until=Until(time=FOREVER, gap=1e-22))
    return {"sgd": Ensemble(build, {"part": PARTS, "member": range(MEMBERS)}), "flow": flow}


def one_of_three(key: int, balanced: bool = True) -> Setup:
    """A scale and a learning rate by the key."""
    scale, lr = PAIRS[key % len(PAIRS)]
    dynamics = Descent(lr * cases.slower(key), Minibatch(BATCH))
    if balanced:
        return cases.rank1(key, scale, dynamics, until=LONG, save_at=[0])
    return cases.unbalanced(key, dynamics, until=LONG, save_at=[0])


def predict_limit(setup: Setup) -> Told:
    """The gap and what it takes from the distance to the min-norm solution, per step."""
    return _per_step(setup, first_order(setup))


def without_noise(setup: Setup) -> Told:
    """The same of gradient descent: the covariance of the batches' gradients is left out."""
    lr = common.learning_rate(setup)
    return _per_step(setup, first_order(setup.replace(dynamics=Descent(lr))))


def _per_step(setup: Setup, shift: tuple[float, np.ndarray]) -> Told:
    gap, moved = shift
    lr = common.learning_rate(setup)
    error = (lr * sharpness(setup)) ** 2
    start = float(np.linalg.norm(common.start(setup)))
    least = 1e-12 * max(start, float(np.linalg.norm(common.regression(setup).min_norm)))
    nearer = float(np.linalg.norm(moved))
    values = {
        "gap": equals(lr * gap, scale=max(lr * gap, least)),
        "nearer": equals(lr * nearer, scale=max(lr * nearer, least)),
    }
    return Told(values, moved_end(setup).residual, dict.fromkeys(values, error))


def measure_limit(runs: Mapping[str, Run | xr.Dataset]) -> Measurements:
    """The same at the ends, without what is of second order in the step."""
    members = runs["sgd"]
    flow = runs["flow"]
    assert isinstance(members, xr.Dataset)
    assert isinstance(flow, Run)
    gaps = np.asarray(members["gap_end"].transpose("part", "member", ...).values)[:, :, 0]
    least = np.ravel(common.regression(setup_of(flow)).min_norm)
    away = float(np.linalg.norm(np.ravel(limit(flow).value) - least))
    nearer = away - np.asarray(members["away_end"].transpose("part", "member").values)
    return {"gap": of_first_order(gaps), "nearer": of_first_order(nearer)}


def of_first_order(ends: np.ndarray) -> Measured:
    """4 times that of half the step less that of the step, (2, members), in the mean."""
    error = ends.std(axis=1, ddof=1) / np.sqrt(ends.shape[1])
    mean = 4 * ends[1].mean() - ends[0].mean()
    return measured(mean, standard_error=float(np.hypot(4 * error[1], error[0])))


def by_minibatches() -> Hypothesis:
    """SGD proper."""
    return kind("the noise is that of minibatches", lambda s: common.minibatch(s) is not None)


LIMIT = Theorem(
    "rank1.sgd.limit",
    r"In the mean over its draws SGD ends where gradient flow with the gap $\delta_\infty = "
    r"\int\eta\,\xi^2(\mathrm{tr}E[gg^\top]-v_1^\top E[gg^\top]v_1/s^2)\,dt$ does: nearer to the "
    r"min-norm solution than GD, up to terms of order $\eta$ relative to the change.",
    hypotheses=[*at_rest(), by_minibatches(), Hypothesis("the step is small", step_error, USEFUL)],
    predict=predict_limit,
    measure=measure_limit,
    tolerance=1e-3,
    instances=one_of_three,
    controls=[Control("init is balanced", lambda key: one_of_three(key, False))],
    runs=both_kinds,
    terms={"the covariance of the batches": without_noise},
    paper=RANK1_STEPS,
    title="where SGD ends, without running it",
    slow=True,
    own=True,
)


def predict_drawn(
    setup: Setup, run: Run, replace: bool | None = None, noise: Noise = "sampling"
) -> Claims:
    """Covariance of the predictor's velocity by the noise of minibatches, at every save."""
    problem = common.regression(setup)
    law = common.minibatch(setup)
    assert law is not None
    again = law.replace if replace is None else replace
    factors = [
        sde_coefficients(problem, p, 1.0, law.batch_size, noise, again).diffusion
        for p in cases.path(run)
    ]
    return scaled({"covariance": [factor @ factor.T for factor in factors]})


def velocities(
    problem: Regression, params: Mapping[str, np.ndarray], batches: Iterable[tuple[int, ...]]
) -> np.ndarray:
    """dθ/dt of every batch by the chain rule, (batches, d)."""
    omega = np.sum(params["u"] * params["v"], axis=1)
    xi = float(np.prod(omega))
    X = problem.X
    r = X @ (xi * params["v1"]) - np.ravel(problem.labels)
    rest = np.array([np.prod(np.delete(omega, k)) for k in range(len(omega))])
    norms = np.sum(params["u"] ** 2 + params["v"] ** 2, axis=1)
    moved = []
    for rows in map(list, batches):
        g = 2 * float(problem.weight) * problem.n / len(rows) * (X[rows].T @ r[rows])
        moved.append(-(xi**2) * g - float(rest**2 @ norms) * (params["v1"] @ g) * params["v1"])
    return np.asarray(moved)


def every_batch(law: Minibatch, n: int) -> list[tuple[int, ...]]:
    """All batches that the law may draw, each as likely as any other."""
    rows = range(n)
    b = law.batch_size
    return list(
        itertools.product(rows, repeat=b) if law.replace else itertools.combinations(rows, b)
    )


def measure_drawn(run: Run) -> Measurements:
    """The covariance over all batches, at every save."""
    setup = setup_of(run)
    problem = common.regression(setup)
    law = common.minibatch(setup)
    assert law is not None
    batches = every_batch(law, problem.n)
    covariances = [np.cov(velocities(problem, p, batches).T, bias=True) for p in cases.path(run)]
    return {"covariance": np.asarray(covariances)}


def few_batches(setup: Setup) -> float:
    """How many batches there are; all of them are looked at."""
    law = common.minibatch(setup)
    n = getattr(setup.problem, "n", 1)
    return float(n) ** law.batch_size if law is not None else np.inf


SAMPLING = Theorem(
    "rank1.sgd.sampling",
    r"The residuals that a batch of $b$ rows sees have the covariance $C/b$ with replacement and "
    r"$\frac{n-b}{n-1}C/b$ without, $C = \mathrm{diag}(r^2)/n-rr^\top/n^2$; hence that of "
    r"$d\theta/dt$. Larger batches only divide $\eta$ by $b$ where noise is concerned.",
    hypotheses=[
        common.one_output(),
        by_minibatches(),
        Hypothesis("batches can be listed", few_batches, 1e4),
    ],
    predict=predict_drawn,
    measure=measure_drawn,
    tolerance=1e-10,
    instances=short,
    controls=[
        Control(
            "rows are drawn with replacement",
            short,
            lambda s, run: predict_drawn(s, run, True),
            formula=True,
        )
    ],
    given=("path",),
    errata=(
        Erratum(
            "Eq (70)-(72)",
            r"modelled: $\mathrm{cov}[Z] \sim \frac{\mathcal{L}}{n}I$",
            r"exactly $\frac{1}{n}\mathrm{diag}(r^2)-\frac{1}{n^2}rr^\top$, of about the "
            "same trace",
            "convention",
            quote=r"\text{cov}[Z_{j_t}] \sim \frac{\mathcal{L}}{n} \mathbf{I}_n. \quad (71)",
            note="A step of modelling, not an equation.",
        ),
    ),
    paper=OF_GAPS,
    title="the noise of minibatches, exactly",
    own=True,
)

THEOREMS = (LIMIT, SAMPLING)
