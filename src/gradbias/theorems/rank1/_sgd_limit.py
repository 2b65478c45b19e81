"""Where SGD ends, told without running it, against ensembles; and the noise that does it."""

import itertools
from typing import Any

import numpy as np

from ... import observe
from ..._engine.setup import Setup
from ...dynamics import Descent
from ...nets import Rank1
from ...noise import Minibatch
from ...problems import Regression
from ...theory import sde_coefficients
from .. import _shared_hypotheses as common
from .._claims import equals, measured
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis, kind
from .._source import RANK1 as SOURCE
from .._theorem import Control, Ensemble, Theorem, Told
from . import _instances as cases
from ._limits import USEFUL, moved_end, sharpness, step_error
from ._sde import scaled
from ._sgd_gap import BATCH, LONG, RECORD, at_rest, short

MEMBERS = 48
PAIRS = ((0.7, 0.002), (1.0, 0.001), (0.3, 0.002))  # scale of the start, learning rate


def ensemble_of(setup: Setup) -> Ensemble:
    """Many draws."""
    problem: Any = setup.problem
    record = {"gap": observe.gap, "away": observe.distance_to(problem.min_norm)}
    first = setup.replace(record=record)

    def build(member: int) -> Setup:
        return first.replace(key=setup.key * MEMBERS + member)

    return Ensemble(build, {"member": range(MEMBERS)})


def one_of_three(key: int, balanced: bool = True) -> Setup:
    """A scale and a learning rate by the key."""
    scale, lr = PAIRS[key % len(PAIRS)]
    more = {"dynamics": Descent(lr, Minibatch(BATCH)), "until": LONG, "save_at": [0]}
    return cases.rank1(key, scale, **more) if balanced else cases.unbalanced(key, **more)


def told_limit(setup: Setup) -> Told:
    """The gap and the distance to the min-norm solution, by sgd_limit."""
    found = moved_end(setup)
    error = common.learning_rate(setup) * sharpness(setup)
    start = float(np.linalg.norm(common.start(setup)))
    least = 1e-12 * max(start, float(np.linalg.norm(common.problem(setup).min_norm)))
    values = {
        "gap": equals(found.gap, scale=max(found.gap, least)),
        "distance": equals(found.distance, scale=max(found.distance, least)),
    }
    return Told(values, found.residual, {"gap": error, "distance": error * step_error(setup)})


def seen_limit(runs: Any) -> dict[str, Any]:
    """The same at the ends of all members."""
    data = runs["run"]
    found = {"gap": data["gap_end"].values[:, 0], "distance": data["away_end"].values}
    return {
        name: measured(x.mean(), standard_error=x.std(ddof=1) / np.sqrt(len(x)))
        for name, x in found.items()
    }


def by_minibatches() -> Hypothesis:
    """SGD proper."""
    return kind("the noise is that of minibatches", lambda s: common.minibatch(s) is not None)


LIMIT = Theorem(
    "rank1.sgd.limit",
    r"In the mean over its draws SGD ends where gradient flow with the gap $\delta_\infty = "
    r"\int\eta\,\xi^2(\mathrm{tr}E[gg^\top]-v_1^\top E[gg^\top]v_1/s^2)\,dt$ does: nearer to the "
    r"min-norm solution than GD, up to terms of order $\eta$ relative to the change.",
    [*at_rest(), by_minibatches(), Hypothesis("the step is small", step_error, USEFUL)],
    told_limit,
    seen_limit,
    {"gap": 5e-3, "distance": 5e-4},
    one_of_three,
    [Control("init is balanced", lambda key: one_of_three(key, False))],
    runs=ensemble_of,
    nets=(Rank1,),
    problems=(Regression,),
    dynamics=(Descent,),
    source=SOURCE,
    title="where SGD ends, without running it",
    slow=True,
)


def _path(run: Any) -> list[dict[str, np.ndarray]]:
    """The parameters at every save."""
    values = {name: run.data[f"params_{name}"].values for name in ("v1", "u", "v")}
    return [{n: x[i] for n, x in values.items()} for i in range(len(values["v1"]))]


def drawn(setup: Setup, runs: Any, replace: bool | None = None) -> dict[str, Any]:
    """Covariance of the predictor's velocity by the noise of minibatches, at every save."""
    problem: Any = setup.problem
    law = common.minibatch(setup)
    assert law is not None
    again = law.replace if replace is None else replace
    path = _path(runs["run"])
    found = [sde_coefficients(problem, p, 1.0, law.batch_size, "sampling", again) for p in path]
    return scaled({"covariance": [f.diffusion @ f.diffusion.T for f in found]})


def velocities(problem: Any, params: Any, batches: Any) -> np.ndarray:
    """dθ/dt of every batch by the chain rule, (batches, d)."""
    omega = np.sum(params["u"] * params["v"], axis=1)
    xi = float(np.prod(omega))
    X, r = problem.X, problem.X @ (xi * params["v1"]) - np.ravel(problem.labels)
    rest = np.array([np.prod(np.delete(omega, k)) for k in range(len(omega))])
    norms = np.sum(params["u"] ** 2 + params["v"] ** 2, axis=1)
    found = []
    for rows in map(list, batches):
        g = 2 * float(problem.weight) * problem.n / len(rows) * (X[rows].T @ r[rows])
        found.append(-(xi**2) * g - float(rest**2 @ norms) * (params["v1"] @ g) * params["v1"])
    return np.asarray(found)


def every_batch(law: Minibatch, n: int) -> list[tuple[int, ...]]:
    """All batches that the law may draw, each as likely as any other."""
    rows, b = range(n), law.batch_size
    return list(
        itertools.product(rows, repeat=b) if law.replace else itertools.combinations(rows, b)
    )


def enumerated(runs: Any) -> dict[str, Any]:
    """The covariance over all batches, at every save."""
    run = runs["run"]
    problem, law = run.setup.problem, common.minibatch(run.setup)
    assert law is not None
    batches = every_batch(law, problem.n)
    found = [np.cov(velocities(problem, p, batches).T, bias=True) for p in _path(run)]
    return {"covariance": np.asarray(found)}


def few_batches(setup: Setup) -> float:
    """How many batches there are; all of them are looked at."""
    law, n = common.minibatch(setup), getattr(setup.problem, "n", 1)
    return float(n) ** law.batch_size if law is not None else np.inf


def isotropic(key: int) -> Evidence:
    """The paper's isotropic covariance and the exact one, against all batches of one row."""
    setup = cases.unbalanced(key)
    problem: Any = setup.problem
    truth = np.cov(velocities(problem, setup.params, [(i,) for i in range(problem.n)]).T, bias=True)
    forms = [
        sde_coefficients(problem, setup.params, 1.0, 1, noise)
        for noise in ("isotropic", "sampling")
    ]
    errors = [np.linalg.norm(f.diffusion @ f.diffusion.T - truth) for f in forms]
    return Evidence(*(float(e / np.linalg.norm(truth)) for e in errors))


SAMPLING = Theorem(
    "rank1.sgd.sampling",
    r"The residuals that a batch of $b$ rows sees have the covariance $C/b$ with replacement and "
    r"$\frac{n-b}{n-1}C/b$ without, $C = \mathrm{diag}(r^2)/n-rr^\top/n^2$; hence that of "
    r"$d\theta/dt$. Larger batches only divide $\eta$ by $b$ where noise is concerned.",
    [common.one_output(), by_minibatches(), Hypothesis("batches can be listed", few_batches, 1e4)],
    drawn,
    enumerated,
    1e-10,
    short,
    [Control("rows are drawn as the law says", short, lambda s, runs: drawn(s, runs, True))],
    nets=(Rank1,),
    needs=RECORD,
    given=("path",),
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (70)-(72)",
            r"$C = \frac{\mathcal{L}}{n}I$",
            r"$C = \frac{1}{n}\mathrm{diag}(r^2)-\frac{1}{n^2}rr^\top$, of about the same trace",
            "numeric",
            isotropic,
        ),
    ),
    source=SOURCE,
    title="the noise of minibatches, exactly",
)

THEOREMS = (LIMIT, SAMPLING)
