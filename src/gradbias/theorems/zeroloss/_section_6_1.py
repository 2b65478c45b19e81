"""Diagonal nets on the way to the manifold: Section 6.1 and Appendix D.2."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...dynamics import Flow
from ...nets import Diagonal
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory import diagonal
from .. import _shared_hypotheses as common
from .._claims import at_least, at_most, measured
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis
from .._per_setup import fact
from .._shared_measurements import gap_asked
from .._source import ZEROLOSS as SOURCE
from .._theorem import Control, Theorem, Told
from . import _instances as cases
from ._oracle import Place
from ._section_5 import FLAT

DECAY = Flow(rtol=1e-12, atol=1e-14, weight_decay=5.0)
KINDS: dict[str, Any] = {
    "nets": (Diagonal,),
    "problems": (Regression,),
    "dynamics": (Flow,),
    "source": SOURCE,
}


def stopped(key: int) -> Setup:
    """A flow that has not arrived."""
    return cases.diagonal_flow(key, time=0.05)


def decaying(key: int) -> Setup:
    """Weight decay so strong that everything goes to zero."""
    return cases.diagonal_flow(key, dynamics=DECAY, time=2.0)


def hypotheses() -> list[Hypothesis]:
    """Section 6: one output, labels that can be fitted, a start in the open set U."""
    return [
        common.one_output(),
        common.no_decay(),
        cases.fitted(),
        cases.start_without_zeros(),
    ]


def halves(setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Both halves at the start."""
    return np.asarray(setup.params["u"]), np.asarray(setup.params["v"])


def predict_hessian(setup: Setup) -> Told:
    """(35) and (16) at the end of the flow."""
    found = cases.diagonal_end(setup)
    problem: Any = setup.problem
    J = np.hstack([problem.X * found.u, -problem.X * found.v])
    values = {
        "hessian": 8 * float(problem.weight) * J.T @ J,
        "trace": diagonal.regulariser(problem, found.u, found.v),
    }
    return Told(values, residual=found.residual)


def hessian(runs: Any) -> dict[str, Any]:
    """By autodiff."""
    H = Place.end_of(runs["run"]).hessian()
    return {"hessian": H, "trace": float(np.trace(H))}


EQ35 = Theorem(
    "zeroloss.eq35",
    r"On the manifold of a diagonal net $H = \frac{4}{n}\sum_i "
    r"(z_i\circ u, -z_i\circ v)(z_i\circ u, -z_i\circ v)^\top$ and "
    r"$R = \tr H = \frac{4}{n}\sum_j(\sum_i z_{ij}^2)(u_j^2+v_j^2)$.",
    [*hypotheses(), cases.dense()],
    predict_hessian,
    hessian,
    1e-9,
    cases.diagonal_flow,
    [Control("the run ends on the manifold", stopped)],
    title="Hessian and regulariser of a diagonal net",
    **KINDS,
)


def predict_dimension(setup: Setup) -> dict[str, Any]:
    """2d − rank X."""
    problem: Any = setup.problem
    return {"dimension": 2.0 * problem.d - problem.rank, "kernel": float(problem.rank)}


def dimension(runs: Any) -> dict[str, Any]:
    """Flat directions of the Hessian, and the rank of JJᵀ."""
    place = Place.end_of(runs["run"])
    spectrum = np.linalg.eigvalsh(place.hessian())
    J = place.residuals(place.x[None])[1][0]
    return {
        "dimension": float(np.sum(spectrum < FLAT * spectrum[-1])),
        "kernel": float(np.linalg.matrix_rank(J @ J.T, tol=1e-10)),
    }


def dead_coordinates(key: int) -> Setup:
    """A net of which two coordinates are alive, one of them the teacher's."""
    X = cases.regression(key).X
    alive = np.arange(cases.D) < 2
    params = {name: np.where(alive, x, 0) for name, x in cases.start(key).items()}
    return cases.diagonal_flow(key, problem=Regression.half_mean(X, X[:, 0]), params=params)


LEMMA6_2 = Theorem(
    "zeroloss.lemma6.2",
    r"Where no coordinate of $u$ and $v$ is zero, the gradients $\nabla f_i$ are independent, the "
    r"kernel $K = (\nabla f_i\cdot\nabla f_j)$ has full rank and the minimisers form a manifold of "
    r"dimension $2d - n$.",
    [*hypotheses(), cases.dense()],
    predict_dimension,
    dimension,
    0.0,
    cases.diagonal_flow,
    [Control("no coordinate is zero", dead_coordinates)],
    title="minimisers of a diagonal net",
    **KINDS,
)


def length(runs: Any) -> dict[str, Any]:
    """The length of the path through its saves, and the loss at its end."""
    data = runs["run"].data
    path = np.concatenate([data["params_u"].values, data["params_v"].values], axis=1)
    steps = np.diff(path[np.isfinite(path).all(axis=1)], axis=0)
    losses = data["loss"].values
    return {
        "length": float(np.linalg.norm(steps, axis=1).sum()),
        "loss": measured(losses[np.isfinite(losses)][-1], error=gap_asked(runs["run"])),
    }


def predict_length(setup: Setup) -> dict[str, Any]:
    """2√(L/C), and zero loss."""
    problem: Any = setup.problem
    first = float(problem.loss((halves(setup)[0]) ** 2 - halves(setup)[1] ** 2))
    bound = diagonal.length_bound(problem, *halves(setup))
    return {"length": at_most(bound), "loss": at_most(1e-18 * first, scale=first)}


def wrong_signs(key: int) -> Setup:
    """Only v is alive where the labels need u."""
    problem = cases.regression(key)
    problem = Regression.half_mean(problem.X, problem.X @ np.full(cases.D, 1.0))
    params = cases.start(key)
    return cases.diagonal_flow(key, problem=problem, params={**params, "u": np.zeros(cases.D)})


def printed_length(key: int) -> Evidence:
    """Distance from start to end, which no path undercuts, over both bounds."""
    rng = generator(key, "zeroloss length")
    X = rng.standard_normal((1, cases.D))
    u = np.ones(cases.D)
    problem = Regression.half_mean(X, np.array([0.01]))
    found = diagonal.limit(problem, u, u)
    apart = float(np.hypot(np.linalg.norm(found.u - u), np.linalg.norm(found.v - u)))
    printed = diagonal.length_bound(problem, u, u, "paper")
    return Evidence(apart / printed, apart / diagonal.length_bound(problem, u, u))


LEMMA6_3 = Theorem(
    "zeroloss.lemma6.3",
    r"Gradient flow of a diagonal net from a start without zeros reaches zero loss, on a path no "
    r"longer than $2\sqrt{L(0)/C}$, $C = \frac{16}{n}\lambda_{min}(ZZ^\top)\min_j|u_jv_j|$.",
    hypotheses(),
    predict_length,
    length,
    1e-9,
    cases.diagonal_flow,
    [
        Control(
            "no coordinate is zero",
            wrong_signs,
            lambda s: {"length": at_most(1e9), "loss": predict_length(s)["loss"]},
        )
    ],
    needs=cases.RECORD,
    errata=(
        Erratum(
            "proof of Lemma 6.3",
            r"length $\le \sqrt{L(0)}/(2\sqrt{C})$",
            r"length $\le 2\sqrt{L(0)/C}$",
            "bound",
            printed_length,
        ),
    ),
    title="a diagonal net reaches zero loss",
    **KINDS,
)


def predict_pl(setup: Setup, runs: Any) -> dict[str, Any]:
    """C·L at every save."""
    problem: Any = setup.problem
    loss = _reached(runs["run"], "loss")
    C = diagonal.pl_constant(problem, *halves(setup))
    return {"slope": at_least(C * loss, scale=C * loss)}


def _reached(run: Any, name: str) -> np.ndarray:
    """At the saves where the loss is more than rounding."""
    loss = run.data["loss"].values
    kept = np.isfinite(loss) & (loss > 1e-20 * loss[0])
    return run.data[name].values[kept]


def printed_pl(key: int) -> Evidence:
    """C·L/‖∇L‖² for a residual along the weakest direction and nearly equal halves."""
    rng = generator(key, "zeroloss PL")
    X = rng.standard_normal((4, cases.D))
    weakest = np.linalg.eigh(X @ X.T)[1][:, 0]
    u, v = np.full(cases.D, 1.001), np.ones(cases.D)
    problem = Regression.half_mean(X, X @ (u**2 - v**2) + weakest)
    g = problem.gradient(u**2 - v**2)
    ratio = float(problem.loss(u**2 - v**2)) / float(4 * g @ (g * (u**2 + v**2)))
    return Evidence(
        ratio * diagonal.pl_constant(problem, u, v, "paper"),
        ratio * diagonal.pl_constant(problem, u, v),
    )


LEMMAD_2 = Theorem(
    "zeroloss.lemmaD.2",
    r"Along gradient flow of a diagonal net $\|\nabla L\|^2 \ge "
    r"\frac{16}{n}\lambda_{min}(ZZ^\top)\min_j|u_jv_j(0)|\,L$; so every stationary point "
    r"without zeros is a global minimum.",
    hypotheses(),
    predict_pl,
    lambda runs: {"slope": _reached(runs["run"], "slope")},
    1e-9,
    cases.diagonal_flow,
    [Control("there is no weight decay", decaying)],
    needs=cases.RECORD,
    given=("losses on the way",),
    errata=(
        Erratum(
            "Lemma D.2",
            r"$\|\nabla L\|^2 \ge 16\lambda_{min}(ZZ^\top)\min_j|u_jv_j(0)|\,L$",
            r"$\frac{16}{n}$ instead of 16",
            "bound",
            printed_pl,
        ),
    ),
    title="slope of the loss against the loss",
    **KINDS,
)


def predict_products(setup: Setup, runs: Any) -> dict[str, Any]:
    """u∘v of the start, at every save."""
    product = np.prod(halves(setup), axis=0)
    return {"product": np.tile(product, (len(products(runs)["product"]), 1))}


def products(runs: Any) -> dict[str, Any]:
    """u∘v at the saves that were reached."""
    data = runs["run"].data
    value = data["params_u"].values * data["params_v"].values
    return {"product": value[np.isfinite(value).all(axis=1)]}


LEMMAD_3 = Theorem(
    "zeroloss.lemmaD.3",
    r"Gradient flow of a diagonal net keeps every product $u_jv_j$.",
    [common.one_output(), common.no_decay()],
    predict_products,
    products,
    1e-10,
    cases.diagonal_flow,
    [Control("there is no weight decay", decaying)],
    needs=cases.RECORD,
    given=("number of saves",),
    title="products are kept by gradient flow",
    **KINDS,
)


def lazy(key: int, size: float = 30.0) -> Setup:
    """A start so large that the net hardly moves."""
    params = {name: size * np.ones(cases.D) for name in ("u", "v")}
    problem = cases.regression(key)
    # The same flow in units of the start: time runs size² times as fast.
    return cases.diagonal_flow(key, problem=problem, params=params, time=50.0 / size**2)


@fact
def moved(setup: Setup) -> float:
    """How far the flow of the net leaves its linearisation, relative."""
    problem: Any = setup.problem
    u, v = halves(setup)
    mass = np.square(u) + np.square(v)
    if np.min(mass) == 0:
        return np.inf
    w, start = diagonal.kernel_solution(problem, u, v), np.square(u) - np.square(v)
    away = float(np.max(np.abs(w - start) / mass))
    # Equal halves feel no curvature to first order.
    return float(np.max(np.abs(start) / mass)) * away + away**2


def predict_kernel(setup: Setup) -> dict[str, Any]:
    """The end of the linearised net."""
    problem: Any = setup.problem
    return {"theta": diagonal.kernel_solution(problem, *halves(setup))}


KERNEL = Theorem(
    "zeroloss.kernel",
    r"From a large start a diagonal net moves as its linearisation: it ends at the fit nearest to "
    r"$u_0^2 - v_0^2$ in the metric $1/(u_0^2+v_0^2)$, for $u_0 = v_0 = \alpha$ the one of least "
    r"norm.",
    [
        *hypotheses(),
        Hypothesis("the start is large", moved, 0.3, True, "how far u and v move"),
    ],
    predict_kernel,
    lambda runs: {"theta": runs["run"].theta},
    1e-6,
    lazy,
    [Control("the start is large", lambda key: lazy(key, 0.3))],
    title="the kernel regime",
    errata=(
        Erratum(
            "Theorem 6.7",
            r"$\nabla f_i(x_0) = [\alpha z_i, -\alpha z_i]$",
            r"$\nabla f_i(x_0) = [2\alpha z_i, -2\alpha z_i]$",
            "convention",
        ),
    ),
    **KINDS,
)

THEOREMS = (EQ35, LEMMA6_2, LEMMA6_3, LEMMAD_2, LEMMAD_3, KERNEL)
