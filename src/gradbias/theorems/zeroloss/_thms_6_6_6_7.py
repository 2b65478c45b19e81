"""How many samples label noise needs (6.6, D.7, D.8), and the kernel regime (6.7)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Flow
from ...nets import Diagonal
from ...numerics.host_rng import generator
from ...problems import Regression, sparse
from ...theory import diagonal
from .. import _shared_hypotheses as common
from .._claims import at_least, measured
from .._hypothesis import Hypothesis, kind
from .._source import ZEROLOSS as SOURCE
from .._theorem import Control, Ensemble, Theorem
from . import _instances as cases

Draw = Callable[[np.random.Generator, int, int], np.ndarray]
DRAWS = 40
BOOLEAN, GAUSSIAN = (24, 40, 3), (260, 8, 1)  # n, d, κ
TEACHER = np.concatenate([[1.0, -1.0], np.zeros(cases.D - 2)])
ALPHA, MEMBERS = 10.0, 160


def sparse_flow(size: tuple[int, int, int], entries: str, key: int) -> Setup:
    """A planted teacher; the run itself is not what decides."""
    n, d, nonzero = size
    problem = sparse(n, d, nonzero, entries, key=key)
    params = {name: np.full(d, 0.5) for name in ("u", "v")}
    return Setup(problem, Diagonal(d), params, Flow(), until=Until(time=0.1), save_at=[0.0, 0.1])


def sizes(setup: Setup) -> tuple[int, int, int]:
    """n, d and the number of non-zero coordinates of the weighted ℓ1 solution."""
    problem: Any = setup.problem
    w = diagonal.weighted_l1(problem)
    return problem.n, problem.d, max(int(np.sum(np.abs(w) > 1e-9 * np.abs(w).max())), 1)


def recoveries(draw: Draw) -> Callable[[Any], dict[str, Any]]:
    """The share of fresh data of these sizes whose weighted ℓ1 problem gives the teacher back."""

    def measure(runs: Any) -> dict[str, Any]:
        setup = runs["run"].setup
        n, d, nonzero = sizes(setup)
        found = [_recovers(draw, n, d, nonzero, 1000 * setup.key + i) for i in range(DRAWS)]
        share = float(np.mean(found))
        # Laplace's rule keeps the error of a share of 0 or 1 finite.
        error = np.sqrt((share * DRAWS + 1) * ((1 - share) * DRAWS + 1)) / (DRAWS + 2) ** 1.5
        return {"probability": measured(share, standard_error=error)}

    return measure


def _recovers(draw: Draw, n: int, d: int, nonzero: int, key: int) -> bool:
    rng = generator(key, "zeroloss recovery")
    teacher = np.zeros(d)
    teacher[rng.choice(d, nonzero, replace=False)] = rng.choice([-1.0, 1.0], nonzero)
    X = draw(rng, n, d)
    weights = np.sum(np.square(X), axis=0)
    found = scipy.optimize.linprog(
        np.tile(weights, 2), A_eq=np.hstack([X, -X]), b_eq=X @ teacher, method="highs"
    )
    plus, minus = np.split(found.x, 2)
    return bool(np.max(np.abs(plus - minus - teacher)) < 1e-6)


def signs(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Random signs."""
    return rng.choice([-1.0, 1.0], (n, d))


def normals(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """N(0, 1) entries."""
    return rng.standard_normal((n, d))


def enough(condition: Callable[[int, int, int], Any]) -> Hypothesis:
    """There are as many samples as the lemma asks for."""

    def margin(setup: Setup) -> float:
        n, d, nonzero = sizes(setup)
        return condition(n, d, nonzero).threshold / n

    return Hypothesis("there are enough samples for the sparsity", margin, 1.0)


def double(n: int, d: int, nonzero: int) -> Any:
    """D.7 with C = 2: half of the data sets recover at C = 1."""
    return diagonal.boolean_recovery(n, d, nonzero, constant=2.0)


KINDS: dict[str, Any] = {
    "nets": (Diagonal,),
    "problems": (Regression,),
    "dynamics": (Flow,),
    "source": SOURCE,
    "slow": True,
}

LEMMAD_7 = Theorem(
    "zeroloss.lemmaD.7",
    r"For inputs of random signs $n \ge C(\kappa\ln(d/\kappa) + \kappa)$ samples suffice, with "
    r"high probability, for label noise to find a $\kappa$-sparse teacher; here $C = 2$, half of "
    r"the draws.",
    [
        common.one_output(),
        cases.fitted(),
        kind(
            "the inputs are signs",
            lambda s: bool(np.ptp(np.abs(s.problem.X)) == 0),  # pyright: ignore[reportAttributeAccessIssue]
        ),
        enough(double),
    ],
    lambda s: {"probability": at_least(0.5)},
    recoveries(signs),
    0.02,
    lambda key: sparse_flow(BOOLEAN, "boolean", key),
    title="recovery from random signs",
    **KINDS,
)

LEMMAD_8 = Theorem(
    "zeroloss.lemmaD.8",
    r"For $N(0,1)$ inputs with $\sqrt{n-1}/2 > \sqrt{\kappa} + 3\sqrt{2\kappa\ln 2(d-\kappa)}$ "
    r"label noise finds a $\kappa$-sparse teacher with probability at least "
    r"$1 - \exp(-(n-1)/8) - d\,\mathrm{P}(\chi^2_n/n \notin [1/2, 3/2])$.",
    [
        common.one_output(),
        cases.fitted(),
        enough(diagonal.gaussian_recovery),
    ],
    lambda s: {"probability": at_least(diagonal.gaussian_recovery(*sizes(s)).probability)},
    recoveries(normals),
    0.02,
    lambda key: sparse_flow(GAUSSIAN, "gaussian", key),
    title="recovery from Gaussian inputs",
    **KINDS,
)


def teacher_data(key: int) -> Regression:
    """Gaussian inputs, labels of one fixed teacher."""
    X = generator(key, "zeroloss kernel data").standard_normal((cases.N, cases.D))
    return Regression.half_mean(X, X @ TEACHER)


def kernel_descent(key: int, share: float = 1.0) -> Setup:
    """Gradient descent from a large start, with a share of a step that fits all data sets."""
    lr = share * 0.012 / ALPHA**2
    params = {name: np.full(cases.D, ALPHA) for name in ("u", "v")}
    return Setup(
        teacher_data(key),
        cases.DIAGONAL,
        params,
        Descent(lr),
        until=Until(steps=4000),
        record={"params": observe.params},
        save_at=[0, 4000],
        key=key,
    )


def fresh_data(setup: Setup) -> Ensemble:
    """The same start on fresh data."""
    first = MEMBERS * setup.key
    return Ensemble(
        lambda seed: setup.replace(problem=teacher_data(first + int(seed))),
        {"seed": range(MEMBERS)},
    )


def test_errors(runs: Any) -> dict[str, Any]:
    """‖θ − w*‖², the mean over data sets."""
    u, v = (runs["run"][f"params_{name}_end"].values for name in ("u", "v"))
    errors = np.sum((u**2 - v**2 - TEACHER) ** 2, axis=1)
    spread = errors.std(ddof=1) / np.sqrt(len(errors))
    return {"error": measured(errors.mean(), standard_error=spread)}


def same_teacher(setup: Setup) -> bool:
    """Are the labels those of the teacher whose data are drawn?"""
    problem: Any = setup.problem
    return problem.d == cases.D and bool(np.allclose(problem.X @ TEACHER, problem.Y))


THM6_7 = Theorem(
    "zeroloss.thm6.7",
    r"In the kernel regime, on $n$ Gaussian samples, no learning rates and no stopping time have "
    r"an expected test error $\mathrm{E}(z\cdot(w-w^*))^2$ below $(1-n/d)\|w^*\|^2$; a fit has "
    r"just that.",
    [
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
    ],
    lambda s: {"error": diagonal.kernel_error(TEACHER, s.problem.n)},  # pyright: ignore[reportAttributeAccessIssue]
    test_errors,
    0.02,
    kernel_descent,
    [Control("the run ends at a fit", lambda key: kernel_descent(key, share=1e-9))],
    runs=lambda s: {"run": fresh_data(s)},
    needs={"params": observe.params},
    slow=True,
    nets=(Diagonal,),
    problems=(Regression,),
    dynamics=(Flow, Descent),
    source=SOURCE,
    title="no recovery in the kernel regime",
)

THEOREMS = (LEMMAD_7, LEMMAD_8, THM6_7)
