"""Theorems 1 and 2, Proposition 2 and what follows from them: where balanced nets end."""

import numpy as np

from ... import init, problems
from ...dynamics import Descent, Flow
from ...nets import Deep, Rank1, TwoLayer
from ...numerics.host_rng import generator
from ...theory import balanced_limit
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
    at_most,
    common,
    equals,
    excess,
    gap_asked,
    kind,
    limit,
    measured,
    setup_of,
)
from . import _instances as cases
from ._facts import DIES_OUT, USEFUL, depth_of, end, measure_end, outside, reaches_zero, step_error
from ._paper import FLOW_AND_STEPS, PAPER


def small_step() -> Hypothesis:
    """The step is small."""
    return Hypothesis("the step is small", step_error, USEFUL, graded=True, order="O(lr)")


def flow_hypotheses() -> list[Hypothesis]:
    """What Theorems 1 and 2 ask for."""
    return [
        common.one_output(),
        *common.plain(),
        DIES_OUT,
        common.balanced(),
        reaches_zero(),
        small_step(),
    ]


def predict_limit(setup: Setup) -> Told:
    """θ∞ and D."""
    exact = end(setup)
    values = {"theta": exact.theta, "distance": equals(exact.distance, _size(setup))}
    return Told(values, residual=exact.residual)


def measure_limit(run: Run) -> Measurements:
    """The same from a run."""
    theta = limit(run)
    away = float(np.linalg.norm(theta.value - common.regression(setup_of(run)).min_norm))
    return {"theta": theta, "distance": measured(away, error=theta.error)}


def _size(setup: Setup) -> float:
    return float(np.linalg.norm(end(setup).theta))


def printed_direction(key: int) -> Evidence:
    """Does the distance fall with the scale of a rank-1 start, as printed? D(2s)/D(s) ≤ 1?"""
    problem = cases.data(key)
    vector = cases.direction(key)
    small, large = (balanced_limit(problem, s * vector, 5).distance for s in (0.5, 1.0))
    return Evidence(printed=large / small, corrected=small / large)


THM1 = Theorem(
    "rank1.thm1",
    r"Gradient flow from a balanced start ends at the interpolator that minimises "
    r"$\frac{1}{\Omega}\|\theta\|^{\Omega} - \theta\cdot\theta(0)\,\|\theta(0)\|^{-\lambda}$, "
    r"$\Omega = \frac{2L}{2L-1}$, $\lambda = 2 - \Omega$: "
    r"$\theta(\infty) = X^+y + s^{N-1}w_0$ with $N = 2L-1$, "
    r"$w_0 = P_N\theta(0)\,\|\theta(0)\|^{1/N-1}$ and $s^{2(N-1)}(s^2-\|w_0\|^2) = \|X^+y\|^2$.",
    hypotheses=flow_hypotheses(),
    predict=predict_limit,
    measure=measure_limit,
    tolerance=1e-8,
    instances=cases.rank1,
    paper_size=cases.paper_rank1,
    controls=[Control("init is balanced", cases.unbalanced)],
    nets=(Rank1,),
    errata=(
        Erratum(
            "App. A.2",
            "the distance to the min-norm solution decreases with the scale of a rank-1 start",
            "it increases: $D$ grows strictly with $\\|\\theta(0)\\|$ in a fixed direction",
            "false",
            evidence=printed_direction,
            bound=True,
            quote=r"increases, $D(\theta(\infty), \theta_{\ell_2}^*)$ decreases for rank-1 "
            "linear linear networks",
            note="The roles of rank-1 and diagonal nets are exchanged in the text.",
        ),
    ),
    paper=FLOW_AND_STEPS,
    title="limit of a balanced rank-1 net",
)


def on_the_line(key: int, away: float) -> Setup:
    """Whitened data and a start at −½X⁺y, or `away` from it."""
    problem = problems.whitened(n=cases.sizes(key).n, d=cases.sizes(key).d, key=key)
    theta0 = -0.5 * np.ravel(problem.min_norm) + away * cases.direction(key)
    params = init.balanced(cases.rank1_net(key), theta0, key=key)
    until = Until(gap=1e-26, time=float(cases.TIMES[-1]))
    return cases.setup(cases.rank1_net(key), params, key, problem=problem, until=until)


def predict_interpolates(setup: Setup) -> Claims:
    at_zero = float(common.regression(setup).loss(np.zeros((setup.problem.d, 1))))
    return {"excess": at_most(0.0, scale=at_zero or 1.0)}


def measure_interpolates(run: Run) -> Measurements:
    """The loss above its minimum at the end."""
    return {"excess": measured(excess(run)[-1], error=gap_asked(run))}


def ends_at_the_saddle(key: int) -> Evidence:
    """Loss at the predicted end over a millionth of the loss at zero; ≤ 1 if it interpolates."""
    problem = problems.gaussian(n=1, d=cases.sizes(key).d, key=key)
    scale = 1e-6 * float(problem.loss(np.zeros(problem.d)))
    off = np.ravel(problem.min_norm) * -0.5
    on_it = balanced_limit(problem, off, 5).theta
    beside = balanced_limit(problem, off + 0.1 * cases.direction(key), 5).theta
    return Evidence(float(problem.loss(on_it)) / scale, float(problem.loss(beside)) / scale)


PROP2 = Theorem(
    "rank1.prop2",
    r"Gradient flow of a balanced net reaches an interpolator, unless its start lies on the stable "
    r"curve of the saddle $\theta = 0$.",
    hypotheses=[common.one_output(), *common.plain(), common.balanced(), reaches_zero()],
    predict=predict_interpolates,
    measure=measure_interpolates,
    tolerance=1e-12,
    instances=lambda key: on_the_line(key, 0.2),
    controls=[
        Control(
            "the start is off the saddle's stable curve",
            lambda key: on_the_line(key, 0.0),
        )
    ],
    nets=(Rank1, Deep, TwoLayer),
    dynamics=(Flow,),
    errata=(
        Erratum(
            "Proposition 2",
            r"if $\dim\,\mathrm{span}(X^\top) \ge n$, gradient flow ends at "
            r"$X\theta(\infty) = y$",
            "a start on the stable curve of the saddle ends at $\\theta = 0$",
            "false",
            evidence=ends_at_the_saddle,
            bound=True,
            quote=r"then the gradient flow solution $\theta(\infty)$ satisfies that "
            r"$$X\theta(\infty) = y.$$",
            note="For one sample that curve is the half line opposite to the solution.",
        ),
    ),
    paper=PAPER,
    title="interpolation, and the saddle it misses",
)

THM2 = Theorem(
    "rank1.thm2",
    r"Gradient flow of a balanced net of $N$ full layers ends at the interpolator that minimises "
    r"$\frac{N}{N+1}\|\theta\|^{1+1/N} - \theta\cdot\theta(0)\,\|\theta(0)\|^{1/N-1}$.",
    hypotheses=flow_hypotheses(),
    predict=predict_limit,
    measure=measure_limit,
    tolerance=1e-8,
    instances=cases.deep,
    paper_size=cases.paper_deep,
    controls=[Control("init is balanced", cases.unbalanced_deep)],
    nets=(Deep, TwoLayer),
    paper=FLOW_AND_STEPS,
    title="limit of a balanced deep net",
)


def one_layer(key: int, decay: float = 0.0) -> Setup:
    """A linear model: a flow, GD with any step that converges, and GD from zero, in turn."""
    problem = cases.data(key)
    net = Deep(dims=(problem.d, 1))
    start = 0.7 * cases.direction(key) if key % 3 < 2 else np.zeros(problem.d)
    params = {"W1": start[:, None]}
    flow = Flow(rtol=1e-12, atol=1e-14, weight_decay=decay)
    if key % 3 == 0:
        return cases.setup(net, params, key, flow, problem=problem)
    curvature = 2 * float(problem.weight) * float(np.linalg.norm(problem.X, 2)) ** 2
    lr = float(generator(key, "rank1 one layer").uniform(0.2, 1.9)) / curvature
    until = Until(steps=200_000, gap=1e-26)
    return cases.setup(net, params, key, Descent(lr, weight_decay=decay), until=until)


def predict_frozen(setup: Setup) -> Claims:
    """X⁺y plus the part of the start that the data do not see."""
    problem = common.regression(setup)
    unseen = outside(problem, problem.as_predictor(common.start(setup)))
    return {"theta": problem.min_norm + problem.at_edge(unseen)}


COR1 = Theorem(
    "rank1.cor1.1",
    r"One layer: gradient descent with any step that converges, and gradient flow, end at "
    r"$X^+y + (I-X^+X)\theta(0)$; from zero that is the min-norm solution.",
    hypotheses=[
        kind("there is one layer", lambda s: depth_of(s) == 1),
        common.no_decay(),
        kind("steps see the data only", common.sees_data_only),
        DIES_OUT,
    ],
    predict=predict_frozen,
    measure=measure_end,
    tolerance=1e-8,
    instances=one_layer,
    controls=[
        Control("there is no weight decay", lambda key: one_layer(key, decay=0.05)),
        Control("there is one layer", cases.deep),
    ],
    nets=(Deep,),
    paper=FLOW_AND_STEPS,
    title="one layer keeps what data do not see",
)


THEOREMS = (THM1, PROP2, THM2, COR1)
