"""Diagonal nets on the manifold: the limiting flow (17), Lemma 6.5 and Appendix D.5."""

from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize

from ..._engine.setup import Setup
from ...theory import diagonal
from .._claims import at_most, equals
from .._hypothesis import Hypothesis
from .._per_setup import fact
from .._theorem import Control, Theorem
from . import _instances as cases
from ._oracle import Place
from ._section_6_1 import KINDS, halves, hypotheses, stopped

TIMES = np.linspace(0.0, 1.0, 21)  # of the limiting flow, with c = 1
FAR = 16.0  # times the slowest rate: when the limiting flow has ended, to 1e-7


class Field:
    """P∇R by least squares on the data, at a vector (u, v) that need not be on the manifold."""

    def __init__(self, setup: Setup):
        problem: Any = setup.problem
        self.X = np.asarray(problem.X)
        self.weights = 8 * float(problem.weight) * np.sum(np.square(self.X), axis=0)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        u, v = np.split(x, 2)
        J = np.hstack([self.X * u, -self.X * v])
        g = 2 * np.tile(self.weights, 2) * x
        return g - J.T @ np.linalg.lstsq(J.T, g, rcond=1e-14)[0]

    def regulariser(self, x: np.ndarray) -> float:
        """R = Σ s_j(u_j² + v_j²)."""
        return float(np.tile(self.weights, 2) @ np.square(x))

    def flow(self, x: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(17) for c = 1 by SciPy, (len(times), 2d)."""
        found = scipy.integrate.solve_ivp(
            lambda _, y: -self(y) / 4,
            (0.0, float(times[-1])),
            x,
            "DOP853",
            t_eval=times,
            rtol=1e-11,
            atol=1e-13,
        )
        return found.y.T


def path(setup: Setup, times: np.ndarray = TIMES) -> np.ndarray:
    """The limiting flow in closed form, (len(times), 2d)."""
    problem: Any = setup.problem
    return np.hstack(diagonal.limiting_flow(problem, *halves(setup), times, 1.0))


def predict_flow(setup: Setup) -> dict[str, Any]:
    """Shrink, then follow gradient flow; products decay."""
    problem: Any = setup.problem
    rates = diagonal.decay_rates(problem)
    product = np.prod(halves(setup), axis=0) * np.exp(-rates * TIMES[:, None])
    return {"path": path(setup), "product": equals(product, scale=np.max(product))}


def flow(runs: Any) -> dict[str, Any]:
    """(17) integrated from where the run ended."""
    run = runs["run"]
    found = Field(run.setup).flow(cases.flat(run.final), TIMES)
    u, v = np.split(found, 2, axis=1)
    return {"path": found, "product": u * v}


EQ17 = Theorem(
    "zeroloss.eq17",
    r"The limiting flow $\dot x = -\frac{c}{4}P\nabla R$ of a diagonal net has "
    r"$u_jv_j = u_jv_j(0)\,e^{-cs_jt}$, $s_j = \frac{4}{n}\sum_iz_{ij}^2$; hence "
    r"$x(t) = \Phi(\sigma\circ u_0, \sigma\circ v_0)$, $\sigma = \exp(-cst/2)$, in closed form.",
    [*hypotheses(), cases.dense()],
    predict_flow,
    flow,
    1e-8,
    cases.diagonal_flow,
    [Control("the run ends on the manifold", stopped)],
    title="the limiting flow in closed form",
    **KINDS,
)


def predict_field(setup: Setup) -> dict[str, Any]:
    """F, and zero."""
    found = cases.diagonal_end(setup)
    problem: Any = setup.problem
    F = np.concatenate(diagonal.projected_gradient(problem, found.u, found.v))
    scale = float(np.linalg.norm(F))
    return {"F": F, "orthogonal": equals(np.zeros(problem.n), scale=scale)}


def field(runs: Any) -> dict[str, Any]:
    """∇tr H by three derivatives, projected; and what the gradients of the outputs see of it."""
    place = Place.end_of(runs["run"])
    F = place.trace_gradient()
    F = F - place.normal() @ F
    J = place.residuals(place.x[None])[1][0]
    return {"F": F, "orthogonal": J @ F / np.linalg.norm(J, 2)}


LEMMAD_10 = Theorem(
    "zeroloss.lemmaD.10",
    r"$F$, the shortest of $\nabla R + \sum_i\lambda_i\nabla f_i$, is $P\,\nabla\tr H$ on the "
    r"manifold and orthogonal to every $\nabla f_i$; it vanishes only where all $u_jv_j$ do.",
    [*hypotheses(), cases.dense()],
    predict_field,
    field,
    1e-8,
    cases.diagonal_flow,
    [Control("the run ends on the manifold", stopped)],
    title="the projected gradient of the regulariser",
    **KINDS,
)


def ratios(setup: Setup) -> np.ndarray:
    """‖F‖²/(R − R*) along the limiting flow."""
    problem: Any = setup.problem
    return np.array([diagonal.limiting_pl(problem, *np.split(x, 2)) for x in path(setup)])


def predict_pl(setup: Setup) -> dict[str, Any]:
    """The ratio along the flow, and the bound on its length that the least one gives."""
    found, problem = cases.diagonal_end(setup), setup.problem
    ratio = ratios(setup)
    bound = diagonal.limiting_length_bound(problem, found.u, found.v, float(ratio.min()))  # pyright: ignore[reportArgumentType]
    return {"ratio": ratio, "length": at_most(bound)}


def pl(runs: Any) -> dict[str, Any]:
    """The same from (17) integrated, R* by linear programming."""
    run = runs["run"]
    own = Field(run.setup)
    found = own.flow(cases.flat(run.final), TIMES)
    least = float(own.weights @ np.abs(_program(run.setup)))
    ratio = [float(np.sum(own(x) ** 2)) / (own.regulariser(x) - least) for x in found]
    fine = own.flow(cases.flat(run.final), np.linspace(0, TIMES[-1], 400))
    return {
        "ratio": np.array(ratio),
        "length": float(np.linalg.norm(np.diff(fine, axis=0), axis=1).sum()),
    }


def _program(setup: Setup) -> np.ndarray:
    """The weighted ℓ1 problem as it stands, in the data."""
    problem: Any = setup.problem
    X, own = np.asarray(problem.X), Field(setup)
    found = scipy.optimize.linprog(
        np.tile(own.weights, 2), A_eq=np.hstack([X, -X]), b_eq=np.ravel(problem.Y)
    )
    plus, minus = np.split(found.x, 2)
    return plus - minus


LEMMAD_16 = Theorem(
    "zeroloss.lemmaD.16",
    r"Along the limiting flow $\|F\|^2 \ge \kappa\,(R - R^*)$ with $\kappa > 0$, so that its "
    r"length is finite: at most $2\sqrt{(R - R^*)/\kappa}$.",
    [*hypotheses(), cases.dense()],
    predict_pl,
    pl,
    1e-6,
    cases.diagonal_flow,
    [Control("the run ends on the manifold", stopped)],
    title="slope and length of the limiting flow",
    **KINDS,
)


@fact
def certificate(setup: Setup) -> Any:
    """Why the solution of the weighted ℓ1 problem is one."""
    return diagonal.l1_certificate(setup.problem)  # pyright: ignore[reportArgumentType]


def unique() -> Hypothesis:
    """The weighted ℓ1 problem has one solution, by a clear margin."""

    def margin(setup: Setup) -> float:
        found = certificate(setup)
        top = np.max(diagonal.decay_rates(setup.problem))  # pyright: ignore[reportArgumentType]
        return 1e-3 * top / found.rate if found.unique else np.inf

    return Hypothesis("the weighted ℓ1 problem has one solution", margin, 1.0)


def predict_l1(setup: Setup) -> dict[str, Any]:
    """w, R* and the canonical parameters up to signs."""
    w = certificate(setup).w
    rates = diagonal.decay_rates(setup.problem)  # pyright: ignore[reportArgumentType]
    return {
        "theta": w,
        "R": float(rates @ np.abs(w)),
        "parameters": np.concatenate(diagonal.canonical(w)),
    }


def far_ahead(runs: Any) -> dict[str, Any]:
    """(17) integrated for a long time."""
    run = runs["run"]
    own = Field(run.setup)
    until = FAR / min(certificate(run.setup).rate, float(own.weights.min()))
    x = own.flow(cases.flat(run.final), np.array([0.0, until]))[-1]
    u, v = np.split(x, 2)
    return {"theta": u**2 - v**2, "R": own.regulariser(x), "parameters": np.abs(x)}


def clear(key: int, dead: bool = False) -> Setup:
    """Data whose weighted ℓ1 problem is decided clearly; `dead` kills a coordinate of it."""
    for attempt in range(200):
        problem = cases.regression(1000 * key + attempt, nonzero=1)
        found = diagonal.l1_certificate(problem)
        if found.unique and found.rate > 0.2 * np.max(diagonal.decay_rates(problem)):
            alive = (np.abs(found.w) < np.max(np.abs(found.w))) | (not dead)
            params = {name: np.where(alive, x, 0.0) for name, x in cases.start(key).items()}
            return cases.diagonal_flow(key, problem=problem, params=params)
    raise RuntimeError("no clear problem was drawn")


LEMMA6_5 = Theorem(
    "zeroloss.lemma6.5",
    r"The limiting flow of a diagonal net from a start without zeros ends at the fit of least "
    r"$\sum_js_j|w_j|$, $s_j = \frac{4}{n}\sum_iz_{ij}^2$; if there is one such $w$, at "
    r"$|u| = \sqrt{[w]_+}$, $|v| = \sqrt{[-w]_+}$.",
    [*hypotheses(), cases.dense(), unique()],
    predict_l1,
    far_ahead,
    {"theta": 1e-5, "R": 1e-5, "parameters": 1e-2},
    clear,
    [Control("no coordinate is zero", lambda key: clear(key, dead=True))],
    title="the end of label noise: weighted ℓ1",
    **KINDS,
)

THEOREMS = (EQ17, LEMMAD_10, LEMMAD_16, LEMMA6_5)
