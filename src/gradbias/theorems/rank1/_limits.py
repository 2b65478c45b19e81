"""Where gradient flow ends, and gradient descent and SGD nearly."""

import math
from typing import Any

import numpy as np

from ... import init, problems
from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Flow
from ...nets import Deep, Diagonal, Rank1, TwoLayer
from ...problems import Regression
from ...theory import balanced_limit, gd_gap, rank1_limit, sgd_limit
from ...theory.diagonal import limit as diagonal_end
from .. import _shared_hypotheses as common
from .._claims import at_most, equals, measured
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis, kind
from .._per_setup import fact
from .._shared_measurements import excess, gap_asked, limit
from .._source import RANK1 as SOURCE
from .._theorem import Control, Theorem, Told
from . import _instances as cases

# First order in lr may be off by its own next order: twice the shift is what to expect.
SAFETY = 2.0
USEFUL = 0.5


def depth_of(setup: Setup) -> int:
    """N, the number of factors."""
    return len(common.factors(setup))


@fact
def end(setup: Setup) -> Any:
    """Where gradient flow from this balanced start ends."""
    return balanced_limit(common.problem(setup), common.start(setup), depth_of(setup))


@fact
def moved_end(setup: Setup) -> Any:
    """Where GD or SGD ends, to first order in the step."""
    problem: Any = setup.problem
    theta0, N, lr = common.start(setup), depth_of(setup), common.learning_rate(setup)
    batch = common.minibatch(setup)
    if batch is not None:
        return sgd_limit(problem, theta0, N, lr, batch.batch_size, batch.replace)
    return balanced_limit(problem, theta0, N, gd_gap(problem, theta0, N, lr))


def step_error(setup: Setup) -> float:
    """How far a finite step moves the limit, relative; 0 for a flow."""
    if math.isnan(common.learning_rate(setup)):
        return math.nan  # a schedule
    if not common.is_descent(setup) or depth_of(setup) == 1:
        return 0.0
    exact = np.asarray(end(setup).theta)
    shift = float(np.linalg.norm(moved_end(setup).theta - exact))
    # A start whose flow moves to a minimum as far as the shift itself has no small parameter.
    return SAFETY * shift / float(np.linalg.norm(exact))


def small_step() -> Hypothesis:
    """The step is small."""
    return Hypothesis("the step is small", step_error, USEFUL, graded=True, order="O(lr)")


def reaches_zero() -> Hypothesis:
    """The start is not on the stable curve of the saddle at zero."""
    return kind("the flow does not end at the saddle θ = 0", lambda s: not end(s).saddle)


def flow_hypotheses() -> list[Hypothesis]:
    """What Theorems 1 and 2 ask for."""
    return [
        common.one_output(),
        *common.plain(),
        kind("noise dies out at the minima", common.noise_vanishes),
        common.balanced(),
        reaches_zero(),
        small_step(),
    ]


def predict_limit(setup: Setup) -> Told:
    """θ∞ and D."""
    found = end(setup)
    values = {"theta": found.theta, "distance": equals(found.distance, _size(setup))}
    return Told(values, residual=found.residual)


def measure_limit(runs: Any) -> dict[str, Any]:
    """The same from a run."""
    run = runs["run"]
    theta = limit(run)
    away = float(np.linalg.norm(theta.value - run.setup.problem.min_norm))
    return {"theta": theta, "distance": measured(away, error=theta.error)}


def _size(setup: Setup) -> float:
    return float(np.linalg.norm(end(setup).theta))


def printed_direction(key: int) -> Evidence:
    """Does the distance fall with the scale of a rank-1 start, as printed? D(2s)/D(s) ≤ 1?"""
    problem, vector = cases.data(key), cases.direction(key)
    small, large = (balanced_limit(problem, s * vector, 5).distance for s in (0.5, 1.0))
    return Evidence(printed=large / small, corrected=small / large)


def nine_layers(key: int, scale: float = 1.0) -> Setup:
    """A start of the size of the solution; the depth matters by the N-th root of their ratio."""
    net, problem = Rank1(d=cases.D, depth=5, width=2), cases.data(key)
    size = scale * float(np.linalg.norm(problem.min_norm))
    params = init.balanced(net, size * cases.direction(key), key=key)
    return cases.setup(net, params, key, problem=problem, record=cases.PATH)


def _far(setup: Setup) -> float:
    """How far D at this depth is from D at infinite depth, relative."""
    exact = infinite(setup).distance
    return abs(end(setup).distance - exact) / exact if exact > 0 else math.nan


@fact
def infinite(setup: Setup) -> Any:
    """The limit for infinitely many layers."""
    return balanced_limit(common.problem(setup), common.start(setup), math.inf)


THM1 = Theorem(
    "rank1.thm1",
    r"Gradient flow from a balanced start ends at the interpolator that minimises "
    r"$\frac{1}{\Omega}\|\theta\|^{\Omega} - \theta\cdot\theta(0)\,\|\theta(0)\|^{-\lambda}$, "
    r"$\Omega = \frac{2L}{2L-1}$, $\lambda = 2 - \Omega$: "
    r"$\theta(\infty) = X^+y + s^{N-1}w_0$ with $N = 2L-1$, "
    r"$w_0 = P_N\theta(0)\,\|\theta(0)\|^{1/N-1}$ and $s^{2(N-1)}(s^2-\|w_0\|^2) = \|X^+y\|^2$.",
    flow_hypotheses(),
    predict_limit,
    measure_limit,
    1e-8,
    cases.rank1,
    [Control("init is balanced", cases.unbalanced, lambda s: predict_as_balanced(s))],
    nets=(Rank1,),
    problems=(Regression,),
    dynamics=(Flow, Descent),
    errata=(
        Erratum(
            "App. A.2",
            "the distance to the min-norm solution decreases with the scale of a rank-1 start",
            "it increases: $D$ grows strictly with $\\|\\theta(0)\\|$ in a fixed direction",
            "bound",
            printed_direction,
            "The roles of rank-1 and diagonal nets are exchanged in the text.",
        ),
    ),
    source=SOURCE,
    title="limit of a balanced rank-1 net",
)


def predict_as_balanced(setup: Setup) -> dict[str, Any]:
    """What Theorem 1 would say of the same predictor, were the start balanced."""
    found = balanced_limit(common.problem(setup), common.start(setup), depth_of(setup))
    return {"theta": found.theta, "distance": equals(found.distance, _size(setup))}


THM2 = Theorem(
    "rank1.thm2",
    r"Gradient flow of a balanced net of $N$ full layers ends at the interpolator that minimises "
    r"$\frac{N}{N+1}\|\theta\|^{1+1/N} - \theta\cdot\theta(0)\,\|\theta(0)\|^{1/N-1}$.",
    flow_hypotheses(),
    predict_limit,
    measure_limit,
    1e-8,
    cases.deep,
    [Control("init is balanced", cases.unbalanced_deep, predict_as_balanced)],
    nets=(Deep, TwoLayer),
    problems=(Regression,),
    dynamics=(Flow, Descent),
    source=SOURCE,
    title="limit of a balanced deep net",
)


def one_layer(key: int, decay: float = 0.0) -> Setup:
    """A linear model."""
    net = Deep(dims=(cases.D, 1))
    params = {"W1": 0.7 * cases.direction(key)[:, None]}
    return cases.setup(net, params, key, Flow(rtol=1e-12, atol=1e-14, weight_decay=decay))


def frozen(setup: Setup) -> dict[str, Any]:
    """X⁺y plus the part of the start that the data do not see."""
    problem: Any = setup.problem
    theta0 = problem.as_predictor(common.start(setup))
    seen = problem.row_space @ (problem.row_space.T @ theta0)
    return {"theta": problem.min_norm + problem.at_edge(theta0 - seen)}


COR1 = Theorem(
    "rank1.cor1.1",
    r"One layer: gradient descent with any step that converges, and gradient flow, end at "
    r"$X^+y + (I-X^+X)\theta(0)$; from zero that is the min-norm solution.",
    [
        kind("there is one layer", lambda s: depth_of(s) == 1),
        common.no_decay(),
        kind("steps see the data only", common.sees_data_only),
        kind("noise dies out at the minima", common.noise_vanishes),
    ],
    frozen,
    lambda runs: {"theta": limit(runs["run"])},
    1e-8,
    one_layer,
    [Control("there is no weight decay", lambda key: one_layer(key, decay=0.05))],
    nets=(Deep,),
    problems=(Regression,),
    source=SOURCE,
    title="one layer keeps what data do not see",
)

DEPTH = Theorem(
    "rank1.depth",
    r"As the number of layers grows at a fixed start $\theta(0)$, the distance to the min-norm "
    r"solution tends to $\|X^+y\|\,c/\sqrt{1-c^2}$ with $c = \|P_N\theta(0)\|/\|\theta(0)\|$, "
    r"whatever the scale of the start.",
    [
        common.one_output(),
        *common.plain(),
        kind("noise dies out at the minima", common.noise_vanishes),
        common.balanced(),
        reaches_zero(),
        Hypothesis("there are many layers", lambda s: 1.05 * _far(s), 0.3, True, "O(1/N)"),
        small_step(),
    ],
    lambda s: {"distance": infinite(s).distance},
    lambda runs: {"distance": measure_limit(runs)["distance"]},
    1e-6,
    nine_layers,
    [Control("there are many layers for this start", lambda key: nine_layers(key, 1e-4))],
    nets=(Deep, Rank1),
    problems=(Regression,),
    dynamics=(Flow, Descent),
    source=SOURCE,
    title="limit of infinite depth",
)


@fact
def any_end(setup: Setup) -> Any:
    """Where gradient flow of a rank-1 net ends from any start."""
    return rank1_limit(common.problem(setup), setup.params)


UNBALANCED = Theorem(
    "rank1.unbalanced",
    r"From any start of a rank-1 net, $M = \|v_1(\infty)\|^2$ solves "
    r"$\Xi(M)^2(M - \|P_Nv_1(0)\|^2) = \|X^+y\|^2$ with "
    r"$\Xi(M)^2 = \prod_k[(M+c_k)^2 - P_kQ_k/4]$, and "
    r"$\theta(\infty) = X^+y \pm \Xi(M)\,P_Nv_1(0)$.",
    [
        common.one_output(),
        *common.plain(),
        kind("the flow does not end at the saddle θ = 0", lambda s: not any_end(s).saddle),
    ],
    lambda s: Told({"theta": any_end(s).theta}, residual=any_end(s).residual),
    lambda runs: {"theta": limit(runs["run"])},
    1e-8,
    cases.unbalanced,
    [
        Control(
            "the path is gradient flow's",
            lambda key: cases.unbalanced(key, Descent(0.02)),
        )
    ],
    nets=(Rank1,),
    problems=(Regression,),
    dynamics=(Flow,),
    source=SOURCE,
    title="limit of a rank-1 net from any start",
)


def on_the_line(key: int, away: float) -> Setup:
    """Whitened data and a start at −½X⁺y, or `away` from it."""
    problem = problems.whitened(n=cases.N, d=cases.D, key=key)
    theta0 = -0.5 * np.ravel(problem.min_norm) + away * cases.direction(key)
    params = init.balanced(cases.RANK1, theta0, key=key)
    until = Until(gap=1e-26, time=float(cases.TIMES[-1]))
    return cases.setup(cases.RANK1, params, key, problem=problem, until=until)


def _interpolates(setup: Setup) -> dict[str, Any]:
    whole = float(common.problem(setup).loss(np.zeros((setup.problem.d, 1))))
    return {"excess": at_most(0.0, scale=whole or 1.0)}


PROP2 = Theorem(
    "rank1.prop2",
    r"Gradient flow of a balanced net reaches an interpolator, unless its start lies on the stable "
    r"curve of the saddle $\theta = 0$.",
    [common.one_output(), *common.plain(), common.balanced(), reaches_zero()],
    _interpolates,
    lambda runs: {"excess": measured(excess(runs["run"])[-1], error=gap_asked(runs["run"]))},
    1e-12,
    lambda key: on_the_line(key, 0.2),
    [
        Control(
            "the start is off the saddle's stable curve",
            lambda key: on_the_line(key, 0.0),
        )
    ],
    nets=(Rank1, Deep, TwoLayer),
    problems=(Regression,),
    dynamics=(Flow,),
    errata=(
        Erratum(
            "Prop. 2",
            "every start but zero reaches zero loss",
            "a start on the stable curve of the saddle ends at $\\theta = 0$",
            "bound",
            lambda key: _saddle_evidence(key),
            "For one sample that curve is the half line opposite to the solution.",
        ),
    ),
    source=SOURCE,
    title="interpolation, and the saddle it misses",
)


def _saddle_evidence(key: int) -> Evidence:
    """Loss at the predicted end over a millionth of the loss at zero; ≤ 1 if it interpolates."""
    problem = problems.gaussian(n=1, d=cases.D, key=key)
    scale = 1e-6 * float(problem.loss(np.zeros(cases.D)))
    off = np.ravel(problem.min_norm) * -0.5
    on_it = balanced_limit(problem, off, 5).theta
    beside = balanced_limit(problem, off + 0.1 * cases.direction(key), 5).theta
    return Evidence(float(problem.loss(on_it)) / scale, float(problem.loss(beside)) / scale)


DIAGONAL = Theorem(
    "rank1.diagonal",
    r"Gradient flow of $\theta = u^2 - v^2$ keeps $uv$ and ends at the interpolator of least "
    r"hyperbolic entropy $\sum_i \alpha_i^2\,q(\theta_i/\alpha_i^2) - "
    r"\theta\cdot\asinh(\theta(0)/2\alpha^2)$, $\alpha^2 = u(0)v(0)$, "
    r"$q(z) = 2 - \sqrt{4+z^2} + z\,\asinh(z/2)$.",
    [common.one_output(), *common.plain()],
    lambda s: _diagonal(s),
    lambda runs: {
        "theta": limit(runs["run"]),
        "product": runs["run"].final["u"] * runs["run"].final["v"],
    },
    1e-8,
    cases.diagonal,
    [
        Control(
            "the path is gradient flow's",
            lambda key: cases.diagonal(key, Descent(0.05)),
        )
    ],
    nets=(Diagonal,),
    problems=(Regression,),
    dynamics=(Flow,),
    source=SOURCE,
    title="limit of a diagonal net",
)


def _diagonal(setup: Setup) -> Told:
    found = diagonal_end(common.problem(setup), setup.params["u"], setup.params["v"])
    product = setup.params["u"] * setup.params["v"]
    return Told({"theta": found.theta, "product": product}, residual=found.residual)


def predict_gap(setup: Setup) -> Told:
    """δ∞ of gradient descent, to first order."""
    found = moved_end(setup)
    error = common.learning_rate(setup) * sharpness(setup)
    values = {"gap": found.gap, "theta": found.theta}
    return Told(values, found.residual, {"gap": error, "theta": error * step_error(setup)})


@fact
def sharpness(setup: Setup) -> float:
    """The size of the sharpness on the way: that of the data times the other layers' squares."""
    problem: Any = setup.problem
    curvature = 2 * float(problem.weight) * float(np.linalg.norm(problem.X, 2)) ** 2
    sizes = [float(np.linalg.norm(theta)) for theta in (common.start(setup), end(setup).theta)]
    return curvature * max(sizes) ** (2 - 2 / depth_of(setup))


GD_GAP = Theorem(
    "rank1.gd_gap",
    r"Gradient descent from a balanced start does not keep the balance: $\delta = \|v_1\|^2 - s^2$ "
    r"grows by $\int \eta\,\xi^2[\|g\|^2 - (v_1\cdot g)^2/s^2]\,dt$, and it ends where "
    r"$s^{2(N-1)}(s^2+\delta-c^2) = \|X^+y\|^2$ says: nearer to the min-norm solution than "
    r"gradient flow.",
    [
        common.one_output(),
        *common.plain(),
        kind("there is no noise", lambda s: getattr(s.dynamics, "noise", None) is None),
        common.balanced(),
        reaches_zero(),
        Hypothesis("the step is small", step_error, USEFUL),
    ],
    predict_gap,
    lambda runs: {"gap": _gap(runs["run"]), "theta": limit(runs["run"])},
    1e-6,
    lambda key: cases.rank1(key, dynamics=Descent(0.002), until=Until(steps=300_000, gap=1e-22)),
    [
        Control(
            "the step is small: flow has no gap",
            lambda key: cases.rank1(key, dynamics=Descent(0.05)),
            lambda s: {"gap": equals(0.0, scale=1.0), "theta": end(s).theta},
        )
    ],
    nets=(Rank1,),
    problems=(Regression,),
    dynamics=(Descent,),
    source=SOURCE,
    title="what a finite step does to the balance",
)


def _gap(run: Any) -> Any:
    v1, u = run.final["v1"], run.final["u"]
    own = limit(run).error / max(1e-300, float(np.linalg.norm(run.theta)))
    gap = float(v1 @ v1 - u[0] @ u[0])
    return measured(gap, error=abs(gap) * own)


THEOREMS = (THM1, PROP2, THM2, COR1, DEPTH, UNBALANCED, DIAGONAL, GD_GAP)
