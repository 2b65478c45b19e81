"""Diagonal nets on the manifold: the limiting flow (17), Lemma 6.5 and Appendix D.5."""

import numpy as np
import scipy.integrate
import scipy.optimize

from ...theory import diagonal
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    at_most,
    common,
    equals,
    fact,
    setup_of,
)
from . import _instances as cases
from ._oracle import Place
from ._paper import DIAGONAL_FLOW
from ._section_6_1 import halves, hypotheses, stopped

TIMES = np.linspace(0.0, 1.0, 21)  # of the limiting flow, with c = 1
GRID = np.linspace(0.0, 1.0, 1001) ** 3  # of the whole flow: it is fast at first
FIRST = 8.0  # a time at which it may have ended
NEAR = 1e-6  # of R*: a distance R − R* that a ratio can be taken of
ENDED = 1e-6  # ‖F‖ over that at the start of the limiting flow: where it has ended
LONGEST = 1e4


class Field:
    """P∇R by least squares on the data, at a vector (u, v) that need not be on the manifold."""

    def __init__(self, setup: Setup):
        problem = common.regression(setup)
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
        solution = scipy.integrate.solve_ivp(
            lambda _, y: -self(y) / 4,
            (0.0, float(times[-1])),
            x,
            "DOP853",
            t_eval=times,
            rtol=1e-11,
            atol=1e-13,
        )
        return solution.y.T

    def end(self, x: np.ndarray) -> np.ndarray:
        """Where (17) ends."""
        still = ENDED * np.linalg.norm(self(x))
        span = 8.0 / float(self.weights.max())
        while np.linalg.norm(self(x)) > still and span < LONGEST:
            x = self.flow(x, np.array([0.0, span]))[-1]
            span = 2 * span
        return x


def path(setup: Setup, times: np.ndarray = TIMES) -> np.ndarray:
    """The limiting flow in closed form, (len(times), 2d)."""
    flow = diagonal.limiting_flow(common.regression(setup), setup.params, times, 1.0)
    return np.hstack(flow)


def predict_flow(setup: Setup) -> Claims:
    """Shrink, then follow gradient flow; products decay."""
    rates = diagonal.decay_rates(common.regression(setup))
    product = np.prod(halves(setup), axis=0) * np.exp(-rates * TIMES[:, None])
    return {"path": path(setup), "product": equals(product, scale=np.max(product))}


def measure_flow(run: Run) -> Measurements:
    """(17) integrated from where the run ended."""
    points = Field(setup_of(run)).flow(cases.flat(run.final), TIMES)
    u, v = np.split(points, 2, axis=1)
    return {"path": points, "product": u * v}


EQ17 = Theorem(
    "zeroloss.eq17",
    r"The limiting flow $\dot x = -\frac{c}{4}P\nabla R$ of a diagonal net has "
    r"$u_jv_j = u_jv_j(0)\,e^{-cs_jt}$, $s_j = \frac{4}{n}\sum_iz_{ij}^2$; hence "
    r"$x(t) = \Phi(\sigma\circ u_0, \sigma\circ v_0)$, $\sigma = \exp(-cst/2)$, in closed form.",
    hypotheses=[*hypotheses(), cases.dense(), cases.arrives()],
    predict=predict_flow,
    measure=measure_flow,
    tolerance=1e-8,
    instances=cases.diagonal_flow,
    controls=[Control("the run ends on the manifold", stopped)],
    title="the limiting flow in closed form",
    paper=DIAGONAL_FLOW,
    own=True,
)


FAR = np.linspace(0.0, 4.0, 9)  # over the slowest of the rates that products decay with


def far_times(setup: Setup) -> np.ndarray:
    """Times of the limiting flow, with c = 1."""
    return FAR / np.min(diagonal.decay_rates(common.regression(setup)))


def predict_existence(setup: Setup) -> Claims:
    """ln|uv| falls along a line and never ends; the labels stay fitted."""
    rates = diagonal.decay_rates(common.regression(setup))
    size = float(np.linalg.norm(common.regression(setup).Y))
    return {
        "log product": -rates * far_times(setup)[1:, None],
        "fit": equals(np.zeros(len(FAR)), scale=size),
    }


def measure_existence(run: Run) -> Measurements:
    """(17) integrated for long."""
    setup = setup_of(run)
    problem = common.regression(setup)
    points = Field(setup).flow(cases.flat(run.final), far_times(setup))
    u, v = np.split(points, 2, axis=1)
    logs = np.log(np.abs(u * v))
    miss = (u**2 - v**2) @ np.asarray(problem.X).T - problem.Y.ravel()
    return {"log product": logs[1:] - logs[0], "fit": np.linalg.norm(miss, axis=1)}


LEMMAD_13 = Theorem(
    "zeroloss.lemmaD.13",
    r"From any point of the manifold without zeros the limiting flow (17) exists for all times "
    r"and stays in $U$: $\ln|u_jv_j|$ falls along a line, by $cs_jt$, and is finite at every time.",
    hypotheses=[*hypotheses(), cases.dense(), cases.arrives()],
    predict=predict_existence,
    measure=measure_existence,
    tolerance=1e-5,
    instances=cases.diagonal_flow,
    controls=[Control("the run ends on the manifold", stopped)],
    title="the limiting flow exists for all times",
    paper=DIAGONAL_FLOW,
)


def predict_field(setup: Setup) -> Claims:
    """F, and zero."""
    end = cases.diagonal_end(setup)
    problem = common.regression(setup)
    F = np.concatenate(diagonal.projected_gradient(problem, {"u": end.u, "v": end.v}))
    scale = float(np.linalg.norm(F))
    return {"F": F, "orthogonal": equals(np.zeros(problem.n), scale=scale)}


def measure_field(run: Run) -> Measurements:
    """∇tr H by three derivatives, projected; and what the gradients of the outputs see of it."""
    place = Place.end_of(run)
    F = place.trace_gradient()
    F = F - place.normal() @ F
    J = place.residuals(place.x[None])[1][0]
    return {"F": F, "orthogonal": J @ F / np.linalg.norm(J, 2)}


LEMMAD_10 = Theorem(
    "zeroloss.lemmaD.10",
    r"$F$, the shortest of $\nabla R + \sum_i\lambda_i\nabla f_i$, is $P\,\nabla\tr H$ on the "
    r"manifold and orthogonal to every $\nabla f_i$; it vanishes only where all $u_jv_j$ do.",
    hypotheses=[*hypotheses(), cases.dense(), cases.arrives()],
    predict=predict_field,
    measure=measure_field,
    tolerance=1e-8,
    instances=cases.diagonal_flow,
    controls=[Control("the run ends on the manifold", stopped)],
    title="the projected gradient of the regulariser",
    paper=DIAGONAL_FLOW,
)


def ratios(setup: Setup) -> np.ndarray:
    """‖F‖²/(R − R*) along the limiting flow."""
    problem = common.regression(setup)
    points = (np.split(x, 2) for x in path(setup))
    return np.array([diagonal.limiting_pl(problem, {"u": u, "v": v}) for u, v in points])


def predict_pl(setup: Setup) -> Claims:
    """The ratio along the flow, and the bound on its length that the least one gives."""
    end = cases.diagonal_end(setup)
    problem = common.regression(setup)
    ratio = ratios(setup)
    least = min(float(ratio.min()), _least_ratio(setup))
    bound = diagonal.limiting_length_bound(problem, {"u": end.u, "v": end.v}, least)
    return {"ratio": ratio, "length": at_most(bound)}


def _least_ratio(setup: Setup) -> float:
    """κ until the flow has come so near its limit that R − R* is rounding."""
    problem = common.regression(setup)
    rates = diagonal.decay_rates(problem)
    least = float(rates @ np.abs(diagonal.weighted_l1(problem)))
    found = np.inf
    for x in path(setup, end_time(setup) * GRID[::20]):
        u, v = np.split(x, 2)
        if float(rates @ (u**2 + v**2)) - least > NEAR * least:
            found = min(found, diagonal.limiting_pl(problem, {"u": u, "v": v}))
    return found


@fact
def end_time(setup: Setup) -> float:
    """When R − R* is next to nothing, in the time of the limiting flow."""
    problem = common.regression(setup)
    rates = diagonal.decay_rates(problem)
    least = float(rates @ np.abs(diagonal.weighted_l1(problem)))
    time = FIRST / float(np.max(rates))
    while time < LONGEST:
        u, v = np.split(path(setup, np.array([0.0, time]))[-1], 2)
        if float(rates @ (u**2 + v**2)) - least < NEAR * least:
            break
        time = 2 * time
    return time


def measure_pl(run: Run) -> Measurements:
    """The same from (17) integrated, R* by linear programming."""
    setup = setup_of(run)
    field = Field(setup)
    points = field.flow(cases.flat(run.final), TIMES)
    least = float(field.weights @ np.abs(_program(setup)))
    ratio = [float(np.sum(field(x) ** 2)) / (field.regulariser(x) - least) for x in points]
    fine = field.flow(cases.flat(run.final), end_time(setup) * GRID)
    rest = np.array([field.regulariser(x) - least for x in fine])
    near = min(int(np.sum(rest > 100 * NEAR * least)), len(fine) - 1)
    slope = float(np.sum(field(fine[near]) ** 2))
    # What is left to the end is no longer than the slope near it allows.
    tail = 2 * np.sqrt(max(rest[-1], 0.0) * rest[near] / slope) if slope > 0 else 0.0
    length = float(np.linalg.norm(np.diff(fine, axis=0), axis=1).sum())
    return {"ratio": np.array(ratio), "length": length + tail}


def _program(setup: Setup) -> np.ndarray:
    """The weighted ℓ1 problem as it stands, in the data."""
    problem = common.regression(setup)
    X = np.asarray(problem.X)
    solution = scipy.optimize.linprog(
        np.tile(Field(setup).weights, 2), A_eq=np.hstack([X, -X]), b_eq=np.ravel(problem.Y)
    )
    plus, minus = np.split(solution.x, 2)
    return plus - minus


LEMMAD_16 = Theorem(
    "zeroloss.lemmaD.16",
    r"(And D.17.) Along the limiting flow $\|F\|^2 \ge \kappa\,(R - R^*)$ with $\kappa > 0$, so "
    r"that its length to the end is finite: at most $2\sqrt{(R - R^*)/\kappa}$.",
    hypotheses=[*hypotheses(), cases.dense(), cases.arrives()],
    predict=predict_pl,
    measure=measure_pl,
    tolerance=1e-6,
    instances=cases.diagonal_flow,
    controls=[Control("the run ends on the manifold", stopped)],
    title="slope and length of the limiting flow",
    paper=DIAGONAL_FLOW,
)


@fact
def certificate(setup: Setup) -> diagonal.L1Certificate:
    """Why the solution of the weighted ℓ1 problem is one."""
    return diagonal.l1_certificate(common.regression(setup))


def unique() -> Hypothesis:
    """The weighted ℓ1 problem has one solution, by a clear margin."""

    def margin(setup: Setup) -> float:
        proof = certificate(setup)
        top = np.max(diagonal.decay_rates(common.regression(setup)))
        return 1e-3 * top / proof.rate if proof.unique else np.inf

    return Hypothesis("the weighted ℓ1 problem has one solution", margin, 1.0)


def predict_l1(setup: Setup) -> Claims:
    """w, R* and the canonical parameters up to signs."""
    w = certificate(setup).w
    rates = diagonal.decay_rates(common.regression(setup))
    return {
        "theta": w,
        "R": float(rates @ np.abs(w)),
        "parameters": np.concatenate(diagonal.canonical(w)),
    }


def measure_l1(run: Run) -> Measurements:
    """(17) integrated for a long time."""
    setup = setup_of(run)
    field = Field(setup)
    x = field.end(cases.flat(run.final))
    u, v = np.split(x, 2)
    return {"theta": u**2 - v**2, "R": field.regulariser(x), "parameters": np.abs(x)}


def clear(key: int, dead: bool = False) -> Setup:
    """Data whose weighted ℓ1 problem is decided clearly; `dead` kills a coordinate of it."""
    for attempt in range(200):
        problem = cases.regression(1000 * key + attempt, nonzero=1)
        proof = diagonal.l1_certificate(problem)
        if proof.unique and proof.rate > 0.2 * np.max(diagonal.decay_rates(problem)):
            alive = (np.abs(proof.w) < np.max(np.abs(proof.w))) | (not dead)
            params = {name: np.where(alive, x, 0.0) for name, x in cases.start(key).items()}
            return cases.diagonal_flow(key, problem=problem, params=params)
    raise RuntimeError("no clear problem was drawn")


LEMMA6_5 = Theorem(
    "zeroloss.lemma6.5",
    r"The limiting flow of a diagonal net from a start without zeros ends at the fit of least "
    r"$\sum_js_j|w_j|$, $s_j = \frac{4}{n}\sum_iz_{ij}^2$; if there is one such $w$, at "
    r"$|u| = \sqrt{[w]_+}$, $|v| = \sqrt{[-w]_+}$.",
    hypotheses=[*hypotheses(), cases.dense(), cases.arrives(), unique()],
    predict=predict_l1,
    measure=measure_l1,
    tolerance={"theta": 1e-6, "R": 1e-6, "parameters": 1e-4},
    instances=clear,
    controls=[Control("no coordinate is zero", lambda key: clear(key, dead=True))],
    title="the end of label noise: weighted ℓ1",
    paper=DIAGONAL_FLOW,
)

THEOREMS = (EQ17, LEMMAD_13, LEMMAD_10, LEMMAD_16, LEMMA6_5)
