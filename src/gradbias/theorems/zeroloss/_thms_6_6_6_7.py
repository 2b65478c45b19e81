"""How many samples label noise needs (6.6, D.7, D.8), and the kernel regime (6.7)."""

import functools
from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np
import scipy.optimize
import xarray as xr

from ... import observe
from ...dynamics import Descent, Dynamics, Flow
from ...nets import Diagonal
from ...numerics.host_rng import generator
from ...problems import Regression, sparse
from ...theory import diagonal
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Hypothesis,
    Measured,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_least,
    common,
    fact,
    kind,
    measured,
    setup_of,
)
from . import _instances as cases
from ._measurements import mean_of
from ._paper import DIAGONAL_FLOW

Draw = Callable[[np.random.Generator, int, int], np.ndarray]
Recovers = Callable[[np.ndarray, np.ndarray], bool]
DRAWS = 400
# n, d, κ
BOOLEAN = (24, 40, 3)
GAUSSIAN = (650, 1000, 1)
TEACHER = np.concatenate([[1.0, -1.0], np.zeros(cases.D - 2)])
ALPHA = 30.0
GROUPS = 80  # of data sets
IMAGES = 2 * cases.D  # of each of them


def sparse_flow(size: tuple[int, int, int], entries: str, key: int) -> Setup:
    """A planted teacher; the run itself is not what decides."""
    n, d, nonzero = size
    problem = sparse(n, d, nonzero, entries, key=key)
    params = {name: np.full(d, 0.5) for name in ("u", "v")}
    until = Until(time=1e-4)
    return Setup(problem, Diagonal(d), params, Flow(), until=until, save_at=[0.0, 1e-4], key=key)


@fact
def sizes(setup: Setup) -> tuple[int, int, int]:
    """n, d and the number of non-zero coordinates of the weighted ℓ1 solution."""
    problem = common.regression(setup)
    w = diagonal.weighted_l1(problem)
    return problem.n, problem.d, max(int(np.sum(np.abs(w) > 1e-9 * np.abs(w).max())), 1)


def pursued(problem: Regression) -> int:
    """How many columns orthogonal matching pursuit takes to make the labels."""
    X = np.asarray(problem.X)
    y = problem.Y.ravel()
    taken: list[int] = []
    left = y
    while np.linalg.norm(left) > 1e-8 * np.linalg.norm(y) and len(taken) < problem.n:
        taken.append(int(np.argmax(np.abs(X.T @ left) / np.linalg.norm(X, axis=0))))
        left = y - X[:, taken] @ np.linalg.lstsq(X[:, taken], y, rcond=None)[0]
    return max(len(taken), 1)


def measure_recovery(draw: Draw, recovers: Recovers) -> Callable[[Run], Measurements]:
    """The share of fresh data of these sizes whose weighted ℓ1 problem gives the teacher back."""

    def measure(run: Run) -> Measurements:
        setup = setup_of(run)
        problem = common.regression(setup)
        nonzero = pursued(problem)
        recovered = []
        for i in range(DRAWS):
            rng = generator(1000 * setup.key + i, "zeroloss recovery")
            teacher = np.zeros(problem.d)
            places = rng.choice(problem.d, nonzero, replace=False)
            teacher[places] = rng.choice([-1.0, 1.0], nonzero)
            recovered.append(recovers(draw(rng, problem.n, problem.d), teacher))
        share = float(np.mean(recovered))
        # Laplace's rule keeps the error of a share of 0 or 1 finite.
        error = np.sqrt((share * DRAWS + 1) * ((1 - share) * DRAWS + 1)) / (DRAWS + 2) ** 1.5
        return {"probability": measured(share, standard_error=error)}

    return measure


def by_program(X: np.ndarray, teacher: np.ndarray) -> bool:
    """Is the teacher what a linear program finds?"""
    weights = np.sum(np.square(X), axis=0)
    solution = scipy.optimize.linprog(
        np.tile(weights, 2), A_eq=np.hstack([X, -X]), b_eq=X @ teacher, method="highs"
    )
    plus, minus = np.split(solution.x, 2)
    return bool(np.max(np.abs(plus - minus - teacher)) < 1e-6)


def by_certificate(X: np.ndarray, teacher: np.ndarray) -> bool:
    """Does the least λ with Xᵀλ = s·sign on the support stay below s off it? That suffices."""
    on = teacher != 0
    weights = np.sum(np.square(X), axis=0)
    dual = np.linalg.lstsq(X[:, on].T, (weights * np.sign(teacher))[on], rcond=None)[0]
    return bool(np.all(np.abs(X[:, ~on].T @ dual) < weights[~on]))


def signs(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Random signs."""
    return rng.choice([-1.0, 1.0], (n, d))


def normals(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """N(0, 1) entries."""
    return rng.standard_normal((n, d))


def enough(condition: Callable[[int, int, int], diagonal.Recovery]) -> Hypothesis:
    """There are as many samples as the lemma asks for."""

    def margin(setup: Setup) -> float:
        n, d, nonzero = sizes(setup)
        return condition(n, d, nonzero).threshold / n

    return Hypothesis("there are enough samples for the sparsity", margin, 1.0)


def double(n: int, d: int, nonzero: int) -> diagonal.Recovery:
    """D.7 with C = 2: half of the data sets recover at C = 1."""
    return diagonal.boolean_recovery(n, d, nonzero, constant=2.0)


def predict_recovery(setup: Setup) -> Claims:
    """Nine tenths of the draws at least."""
    return {"probability": at_least(0.9)}


LEMMAD_7 = Theorem(
    "zeroloss.lemmaD.7",
    r"For inputs of random signs $n \ge C(\kappa\ln(d/\kappa) + \kappa)$ samples suffice, with "
    r"high probability, for label noise to find a $\kappa$-sparse teacher; here $C = 2$, nine "
    r"tenths of the draws.",
    hypotheses=[
        common.one_output(),
        cases.fitted(),
        kind(
            "the inputs are signs",
            lambda s: bool(np.ptp(np.abs(common.regression(s).X)) == 0),
        ),
        enough(double),
    ],
    predict=predict_recovery,
    measure=measure_recovery(signs, by_program),
    tolerance=0.02,
    instances=lambda key: sparse_flow(BOOLEAN, "boolean", key),
    controls=[
        Control(
            "there are enough samples for the sparsity",
            lambda key: sparse_flow((6, 40, 3), "boolean", key),
        )
    ],
    title="recovery from random signs",
    paper=DIAGONAL_FLOW,
    slow=True,
)


def predict_gaussian_recovery(setup: Setup) -> Claims:
    """The bound of the lemma."""
    return {"probability": at_least(diagonal.gaussian_recovery(*sizes(setup)).probability)}


LEMMAD_8 = Theorem(
    "zeroloss.lemmaD.8",
    r"For $N(0,1)$ inputs with $\sqrt{n-1}/2 > \sqrt{\kappa} + 3\sqrt{2\kappa\ln 2(d-\kappa)}$ "
    r"label noise finds a $\kappa$-sparse teacher with probability at least "
    r"$1 - \exp(-(n-1)/8) - d\,\mathrm{P}(\chi^2_n/n \notin [1/2, 3/2])$; $n < d$ is possible "
    r"for very sparse teachers.",
    hypotheses=[
        common.one_output(),
        cases.fitted(),
        enough(diagonal.gaussian_recovery),
    ],
    predict=predict_gaussian_recovery,
    measure=measure_recovery(normals, by_certificate),
    tolerance=0.02,
    instances=lambda key: sparse_flow(GAUSSIAN, "gaussian", key),
    controls=[
        Control(
            "there are enough samples for the sparsity",
            lambda key: sparse_flow((6, 1000, 1), "gaussian", key),
            lambda setup: {"probability": at_least(0.99)},
        )
    ],
    title="recovery from Gaussian inputs",
    paper=DIAGONAL_FLOW,
    slow=True,
)


LAST = 3000
ON_THE_WAY = [30, 300, LAST]


def kernel_descent(key: int, share: float = 1.0) -> Setup:
    """Gradient descent from a large start, with a share of a step that fits all data sets."""
    lr = share * 0.016 / ALPHA**2
    params = {name: np.full(cases.D, ALPHA) for name in ("u", "v")}
    return Setup(
        image(key, 0),
        cases.DIAGONAL,
        params,
        Descent(lr),
        until=Until(steps=LAST),
        record={"params": observe.params},
        save_at=[0, *ON_THE_WAY],
        key=key,
    )


def image(key: int, which: int) -> Regression:
    """Data with their columns shifted around, and one of them negated: of the same law.

    Errors differ much from one data set to another, and little from one such group to another.
    """
    drawn = generator(key, "zeroloss kernel data").standard_normal((cases.N, cases.D))
    X = np.roll(drawn, which % cases.D, axis=1)
    X[:, 0] *= 1.0 if which < cases.D else -1.0
    return Regression.half_mean(X, X @ TEACHER)


def falling(base: float, step):
    """A learning rate that falls as 1/steps."""
    return base / (1 + step / 100)


def uneven(base: float, step):
    """One that goes up and down."""
    return base * (0.05 + 0.95 * jnp.sin(0.37 * step) ** 2)


SCHEDULES = {"falling": falling, "uneven": uneven}


def fresh_data(setup: Setup) -> dict[str, Ensemble]:
    """The same start on fresh data: with the learning rate of the setup, and with schedules."""
    first = GROUPS * setup.key

    def of(moves: Dynamics) -> Ensemble:
        def build(seed: int) -> Setup:
            group, which = divmod(int(seed), IMAGES)
            return setup.replace(problem=image(first + group, which), dynamics=moves)

        return Ensemble(build, {"seed": range(GROUPS * IMAGES)})

    runs = {"constant": of(setup.dynamics)}
    if isinstance(setup.dynamics, Descent):
        base = common.learning_rate(setup)
        schedules = {name: functools.partial(f, base) for name, f in SCHEDULES.items()}
        runs |= {name: of(Descent(schedule)) for name, schedule in schedules.items()}
    return runs


def unfinished(setup: Setup) -> float:
    """What is left of the way, along the slowest direction that data of these sizes have."""
    problem = common.regression(setup)
    rate = 16 * float(problem.weight) * float(np.min(np.square(setup.params["u"])))
    slowest = (np.sqrt(problem.d) - np.sqrt(problem.n)) ** 2
    lr = 1.0 if isinstance(setup.dynamics, Flow) else common.learning_rate(setup)
    return float(np.exp(-rate * slowest * lr * setup.save_at[-1]))


def predict_test_error(setup: Setup) -> Claims:
    """(1 − n/d)‖w*‖², and nothing below it on the way."""
    least = diagonal.kernel_error(TEACHER, common.regression(setup).n)
    names = ["constant", *(SCHEDULES if isinstance(setup.dynamics, Descent) else ())]
    below = {f"{n}, on the way": np.full(len(setup.save_at) - 1, least) for n in names}
    return {"error": least, **{name: at_least(values) for name, values in below.items()}}


def measure_test_error(runs: Mapping[str, xr.Dataset]) -> Measurements:
    """‖θ − w*‖², the means over data sets."""
    errors = {f"{name}, on the way": _test_errors(run) for name, run in runs.items()}
    fit = errors["constant, on the way"]
    assert fit.standard_error is not None
    last = measured(fit.value[-1], standard_error=fit.standard_error[-1])
    return {"error": last, **errors}


def _test_errors(members: xr.Dataset) -> Measured:
    u, v = (members[f"params_{name}"].values[:, 1:] for name in ("u", "v"))
    each = np.sum((u**2 - v**2 - TEACHER) ** 2, axis=2)
    return mean_of(each.reshape(GROUPS, IMAGES, -1).mean(axis=1))


def same_teacher(setup: Setup) -> bool:
    """Are the labels those of the teacher whose data are drawn?"""
    problem = common.regression(setup)
    return problem.d == cases.D and bool(np.allclose(problem.X @ TEACHER, problem.Y))


THM6_7 = Theorem(
    "zeroloss.thm6.7",
    r"In the kernel regime, on $n$ Gaussian samples, no learning rates and no stopping time have "
    r"an expected test error $\mathrm{E}(z\cdot(w-w^*))^2$ below $(1-n/d)\|w^*\|^2$; a fit has "
    r"just that.",
    hypotheses=[
        common.one_output(),
        common.no_decay(),
        kind("the labels are those of the planted teacher", same_teacher),
        kind(
            "the predictor starts at zero",
            lambda s: np.array_equal(np.abs(s.params["u"]), np.abs(s.params["v"])),
        ),
        Hypothesis(
            "the start is large",
            lambda s: float(TEACHER @ TEACHER / np.min(np.square(s.params["u"]))),
            0.1,
            True,
            "how far u and v move",
        ),
        Hypothesis("the run ends at a fit", unfinished, 1e-3),
    ],
    predict=predict_test_error,
    measure=measure_test_error,
    tolerance=0.002,
    instances=kernel_descent,
    controls=[Control("the run ends at a fit", lambda key: kernel_descent(key, share=1e-9))],
    runs=fresh_data,
    needs={"params": observe.params},
    slow=True,
    dynamics=(Flow, Descent),
    paper=DIAGONAL_FLOW,
    title="no recovery in the kernel regime",
)

THEOREMS = (LEMMAD_7, LEMMAD_8, THM6_7)
