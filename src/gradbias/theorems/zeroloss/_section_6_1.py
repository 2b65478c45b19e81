"""Diagonal nets on the way to the manifold: Section 6.1 and Appendix D.2."""

import numpy as np

from ...dynamics import Flow
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory import diagonal
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Evidence,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    Until,
    at_least,
    at_most,
    common,
    equals,
    fact,
    gap_asked,
    measured,
)
from . import _instances as cases
from ._oracle import Place
from ._paper import DIAGONAL_FLOW
from ._section_5 import FLAT

DECAY = Flow(rtol=1e-12, atol=1e-14, weight_decay=5.0)


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
    end = cases.diagonal_end(setup)
    problem = common.regression(setup)
    J = np.hstack([problem.X * end.u, -problem.X * end.v])
    values = {
        "hessian": 8 * float(problem.weight) * J.T @ J,
        "trace": diagonal.regulariser(problem, {"u": end.u, "v": end.v}),
    }
    return Told(values, residual=end.residual)


def measure_hessian(run: Run) -> Measurements:
    """By autodiff."""
    H = Place.end_of(run).hessian()
    return {"hessian": H, "trace": float(np.trace(H))}


EQ35 = Theorem(
    "zeroloss.eq35",
    r"On the manifold of a diagonal net $H = \frac{4}{n}\sum_i "
    r"(z_i\circ u, -z_i\circ v)(z_i\circ u, -z_i\circ v)^\top$ and "
    r"$R = \tr H = \frac{4}{n}\sum_j(\sum_i z_{ij}^2)(u_j^2+v_j^2)$.",
    hypotheses=[*hypotheses(), cases.dense(), cases.arrives()],
    predict=predict_hessian,
    measure=measure_hessian,
    tolerance=1e-9,
    instances=cases.diagonal_flow,
    controls=[Control("the run ends on the manifold", stopped)],
    title="Hessian and regulariser of a diagonal net",
    paper=DIAGONAL_FLOW,
)


def predict_dimension(setup: Setup) -> Claims:
    """2d − rank X."""
    problem = common.regression(setup)
    return {"dimension": 2.0 * problem.d - problem.rank, "kernel": float(problem.rank)}


def measure_dimension(run: Run) -> Measurements:
    """Flat directions of the Hessian, and the rank of JJᵀ."""
    place = Place.end_of(run)
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
    hypotheses=[*hypotheses(), cases.dense()],
    predict=predict_dimension,
    measure=measure_dimension,
    tolerance=0.0,
    instances=cases.diagonal_flow,
    controls=[Control("no coordinate is zero", dead_coordinates)],
    title="minimisers of a diagonal net",
    paper=DIAGONAL_FLOW,
)


def measure_length(run: Run) -> Measurements:
    """The length of the path through its saves, and the loss at its end."""
    path = np.concatenate([run.data["params_u"].values, run.data["params_v"].values], axis=1)
    steps = np.diff(path[np.isfinite(path).all(axis=1)], axis=0)
    losses = run.data["loss"].values
    return {
        "length": float(np.linalg.norm(steps, axis=1).sum()),
        "loss": measured(losses[np.isfinite(losses)][-1], error=gap_asked(run)),
    }


def predict_length(setup: Setup) -> Claims:
    """2√(L/C), and zero loss."""
    problem = common.regression(setup)
    first = float(problem.loss((halves(setup)[0]) ** 2 - halves(setup)[1] ** 2))
    bound = diagonal.length_bound(problem, setup.params)
    return {"length": at_most(bound), "loss": equals(0.0, scale=first)}


def predict_printed_length(setup: Setup) -> Claims:
    """√L/(2√C) with the printed C."""
    return {
        "length": at_most(diagonal.length_bound(common.regression(setup), setup.params, "paper"))
    }


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
    start = {"u": u, "v": u}
    end = diagonal.limit(problem, start)
    distance = float(np.hypot(np.linalg.norm(end.u - u), np.linalg.norm(end.v - u)))
    printed = diagonal.length_bound(problem, start, "paper")
    return Evidence(distance / printed, distance / diagonal.length_bound(problem, start))


LEMMA6_3 = Theorem(
    "zeroloss.lemma6.3",
    r"Gradient flow of a diagonal net from a start without zeros reaches zero loss, on a path no "
    r"longer than $2\sqrt{L(0)/C}$, $C = \frac{16}{n}\lambda_{min}(ZZ^\top)\min_j|u_jv_j|$.",
    hypotheses=hypotheses(),
    predict=predict_length,
    measure=measure_length,
    tolerance=1e-9,
    instances=cases.diagonal_flow,
    controls=[
        Control(
            "no coordinate is zero",
            wrong_signs,
            lambda s: {"length": at_most(1e9), "loss": predict_length(s)["loss"]},
        )
    ],
    needs=cases.RECORD,
    errata=(
        Erratum(
            "Lemma 6.3, proof",
            r"length $\le \sqrt{L(0)}/(2\sqrt{C})$",
            r"length $\le 2\sqrt{L(0)/C}$",
            "false",
            evidence=printed_length,
            bound=True,
            quote="Thus the total GF trajectory length is bounded by",
            predict=predict_printed_length,
        ),
    ),
    title="a diagonal net reaches zero loss",
    paper=DIAGONAL_FLOW,
)


def predict_pl(setup: Setup, run: Run, constant: str = "corrected") -> Claims:
    """C·L at every save."""
    problem = common.regression(setup)
    loss = _reached(run, "loss")
    C = diagonal.pl_constant(problem, setup.params, constant)
    return {"slope": at_least(C * loss, scale=C * loss)}


def measure_pl(run: Run) -> Measurements:
    """‖∇L‖² at every save."""
    return {"slope": _reached(run, "slope")}


def _reached(run: Run, name: str) -> np.ndarray:
    """At the saves where the loss is more than rounding."""
    loss = run.data["loss"].values
    kept = np.isfinite(loss) & (loss > 1e-20 * loss[0])
    return run.data[name].values[kept]


LEMMAD_2 = Theorem(
    "zeroloss.lemmaD.2",
    r"Along gradient flow of a diagonal net $\|\nabla L\|^2 \ge "
    r"\frac{16}{n}\lambda_{min}(ZZ^\top)\min_j|u_jv_j(0)|\,L$; so every stationary point "
    r"without zeros is a global minimum.",
    hypotheses=hypotheses(),
    predict=predict_pl,
    measure=measure_pl,
    tolerance=1e-9,
    instances=cases.diagonal_flow,
    controls=[Control("there is no weight decay", decaying)],
    needs=cases.RECORD,
    given=("losses on the way",),
    errata=(
        Erratum(
            "Lemma D.2",
            r"$\|\nabla L\|^2 \ge 16\lambda_{min}(ZZ^\top)\min_j|u_jv_j(0)|\,L$",
            r"$\frac{16}{n}$ instead of 16",
            "reading",
            quote="16λmin(ZZ>) ∙ mini∈[d] ∣Ui(0)vi(0)∣L(x(t))",
            note="A 1/n may have been lost on the way to the text; the proof has 2/n. Check "
            "against the PDF.",
        ),
    ),
    title="slope of the loss against the loss",
    paper=DIAGONAL_FLOW,
)


def predict_products(setup: Setup, run: Run) -> Claims:
    """u∘v of the start, at every save."""
    product = np.prod(halves(setup), axis=0)
    return {"product": np.tile(product, (len(_products(run)), 1))}


def measure_products(run: Run) -> Measurements:
    """u∘v at the saves that were reached."""
    return {"product": _products(run)}


def _products(run: Run) -> np.ndarray:
    products = run.data["params_u"].values * run.data["params_v"].values
    return products[np.isfinite(products).all(axis=1)]


LEMMAD_3 = Theorem(
    "zeroloss.lemmaD.3",
    r"Gradient flow of a diagonal net keeps every product $u_jv_j$.",
    hypotheses=[common.one_output(), common.no_decay()],
    predict=predict_products,
    measure=measure_products,
    tolerance=1e-10,
    instances=cases.diagonal_flow,
    controls=[Control("there is no weight decay", decaying)],
    needs=cases.RECORD,
    given=("number of saves",),
    title="products are kept by gradient flow",
    paper=DIAGONAL_FLOW,
)


def lazy(key: int, size: float = 30.0) -> Setup:
    """A start so large that the net hardly moves."""
    params = {name: size * np.ones(cases.D) for name in ("u", "v")}
    problem = cases.regression(key)
    # The same flow in units of the start: time runs size² times as fast.
    setup = cases.diagonal_flow(key, problem=problem, params=params, time=1e3 / size**2)
    # u² − v² has rounding of size², and the loss that squared.
    return setup.replace(until=Until(gap=1e-24, time=1e3 / size**2))


@fact
def moved(setup: Setup) -> float:
    """How far the flow of the net leaves its linearisation, relative."""
    problem = common.regression(setup)
    u, v = halves(setup)
    mass = np.square(u) + np.square(v)
    if np.min(mass) == 0:
        return np.inf
    w = diagonal.kernel_solution(problem, {"u": u, "v": v})
    start = np.square(u) - np.square(v)
    away = float(np.max(np.abs(w - start) / mass))
    # Equal halves feel no curvature to first order.
    return float(np.max(np.abs(start) / mass)) * away + away**2


def predict_kernel(setup: Setup) -> Claims:
    """The end of the linearised net."""
    problem = common.regression(setup)
    return {"theta": diagonal.kernel_solution(problem, setup.params)}


def measure_kernel(run: Run) -> Measurements:
    """The predictor at the end of the run."""
    return {"theta": np.asarray(run.theta)}


KERNEL = Theorem(
    "zeroloss.kernel",
    r"From a large start a diagonal net moves as its linearisation: it ends at the fit nearest to "
    r"$u_0^2 - v_0^2$ in the metric $1/(u_0^2+v_0^2)$, for $u_0 = v_0 = \alpha$ the one of least "
    r"norm.",
    hypotheses=[
        *hypotheses(),
        Hypothesis("the start is large", moved, 0.3, True, "how far u and v move"),
    ],
    predict=predict_kernel,
    measure=measure_kernel,
    tolerance=1e-6,
    instances=lazy,
    controls=[Control("the start is large", lambda key: lazy(key, 0.3))],
    title="the kernel regime",
    errata=(
        Erratum(
            "Section 6.3, before Theorem 6.7",
            r"$\nabla f_i(x_0) = [\alpha z_i, -\alpha z_i]$",
            r"$\nabla f_i(x_0) = [2\alpha z_i, -2\alpha z_i]$",
            "reading",
            quote="holds that fi(uo, vo) = 0 and Vfi(U0,v0) = [αzi, -azi]",
            note="A factor may have been lost on the way to the text: check against the PDF.",
        ),
    ),
    paper=DIAGONAL_FLOW,
)

THEOREMS = (EQ35, LEMMA6_2, LEMMA6_3, LEMMAD_2, LEMMAD_3, KERNEL)
