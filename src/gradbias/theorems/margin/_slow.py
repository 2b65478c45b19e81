"""How slowly the flow of a linear classifier settles: the exponent, and the constant of 1/log t."""

import numpy as np

from ...dynamics import Flow
from ...nets import Deep
from ...problems import Classification
from ...theory import margin
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    fact,
    kind,
    setup_of,
)
from . import _instances as cases
from ._papers import SOUDRY

WINDOW = (9.0, 15.0)  # of ν·log t: the slowest part of the rest is alone, and not yet rounding
POINTS = 9
EARLIER = np.array([0.25, 0.5, 1.0])  # of log t at the end
LOG_TIME = 400.0
LEAST = 0.1  # an exponent with which the window ends before t = e^150


@fact
def law_beside(setup: Setup) -> tuple[float, float]:
    """ν, and how far the next exponent is above it."""
    return exponents(cases.classes(setup))


def exponents(problem: Classification) -> tuple[float, float]:
    """The same of data: eigenvalues, margins off the support, twice ν, and 1 of most losses."""
    law = margin.offset(problem)
    Z = problem.constraints
    alpha = law.alpha if problem.vector else law.alpha[problem.Y == 0]
    found = np.linalg.eigvalsh(law.basis.T @ (Z.T * np.ravel(alpha)) @ Z @ law.basis)
    off = (Z @ np.ravel(law.w_hat))[alpha == 0] - 1
    every = np.sort([*found, *off, 1.0])
    nu = law.exponent
    others = every[1:] if np.isclose(every[0], nu) else every
    return nu, float(min(others[0], 2 * nu) - nu)


def window(setup: Setup) -> dict[str, Setup]:
    """Saves at equal distances in log t."""
    saves = np.linspace(*WINDOW, POINTS) / law_beside(setup)[0]
    return {"run": setup.replace(until=Until(log_time=saves[-1]), save_at=saves)}


def slope(run: Run) -> Measurements:
    """Of the logarithm of second differences, in which ŵ log t + w̃ is not there."""
    bends = np.diff(cases.predictors(run), 2, axis=0)
    logs = np.log(np.linalg.norm(bends, axis=1))
    times = np.asarray(run.data["log_time"].values)[1:-1]
    return {"exponent": -np.polyfit(times, logs, 1)[0]}


def beside(setup: Setup) -> float:
    """What the next exponent adds at the beginning of the window, relative."""
    nu, apart = law_beside(setup)
    return float(np.exp(-WINDOW[0] * apart / nu)) * apart / nu


def instance(key: int) -> Setup:
    """One exponent alone."""

    def alone(problem: Classification) -> bool:
        nu, apart = exponents(problem)
        return nu >= LEAST and apart > 0.95 * nu

    loss = ("exponential", "logistic")[key % 2]
    return flow_of(cases.drawn(key, "exponent", loss, alone), key)


def flow_of(problem: Classification, key: int) -> Setup:
    """As far as the constant of 1/log t needs it."""
    return Setup(
        problem,
        cases.one_layer(problem),
        cases.start(problem, key, 1.0),
        cases.by_loss(1e-12),
        Until(log_time=LOG_TIME),
        cases.THETA,
        LOG_TIME * EARLIER,
        key=key,
    )


def thrice(setup: Setup) -> dict[str, Setup]:
    """At a quarter, half and all of log t."""
    return {"run": setup.replace(save_at=cases.log_times(setup)[-1] * EARLIER)}


def gap(setup: Setup) -> Claims:
    return {"(γ − γ_t)‖w‖": margin.rate_constants(cases.classes(setup)).margin}


def shannon(setup: Setup) -> Claims:
    """Without the min-entropy."""
    p = np.ravel(margin.rate_constants(cases.classes(setup)).weights)
    p = p[p > 0]
    return {"(γ − γ_t)‖w‖": float(-np.sum(p * np.log(p)))}


def missing(run: Run) -> Measurements:
    """The margin's distance to γ times ‖w‖, as a polynomial in 1/log t, at its end."""
    problem = cases.classes(setup_of(run))
    sizes = np.linalg.norm(cases.predictors(run), axis=1)
    values = problem.max_margin().gamma * sizes - cases.margins(run).min(axis=1)
    fit = np.polyfit(1 / np.asarray(run.data["log_time"].values), values, len(EARLIER) - 1)
    return {"(γ − γ_t)‖w‖": fit[-1]}


def unequal(key: int, least: float = 0.1) -> Setup:
    """Dual weights that differ."""

    def good(problem: Classification) -> bool:
        law = margin.offset(problem)
        return law.entropy_gap > least and law.exponent > LEAST

    loss = ("exponential", "logistic", "cross_entropy")[key % 3]
    return flow_of(cases.drawn(key, "entropy", loss, good), key)


def two_layers(key: int) -> Setup:
    """The same data and a hidden layer."""
    setup = unequal(3 * (key // 3))
    net = Deep([setup.problem.d, 3, 1])
    rng = cases.draws(key, "hidden")
    params = {n: 0.5 * rng.standard_normal(shape) for n, shape in (net.shapes() or {}).items()}
    return setup.replace(net=net, params=params)


def early(setup: Setup) -> float:
    """The third power of what is left of the offset beside log t, of what is to be seen."""
    law = cases.law(setup)
    sizes = [np.linalg.norm(p) for p in (law.w_tilde, *setup.params.values())]
    first = cases.log_times(setup)[-1] * EARLIER[0]
    return float((law.gamma * sum(sizes) / first) ** 3 / law.entropy_gap)


SAME = [*cases.separated(), cases.is_linear(), cases.is_flow(), cases.not_degenerate()]
THEOREMS = (
    Theorem(
        "margin.exponent",
        r"The $\ell_2$ flow of a linear classifier comes to $\hat w\log t + \tilde w$ as "
        r"$t^{-\nu}$, $\nu = \min(\mu, \theta - 1)$, with the least positive eigenvalue $\mu$ of "
        r"$\sum\alpha_iz_iz_i^\top$ and the least margin $\theta$ of $\hat w$ off the support.",
        hypotheses=[
            *SAME,
            kind("its clock is the loss", lambda s: s.dynamics.axis == "log_time"),
            Hypothesis("one exponent is the least", beside, 0.05, True, "the next exponent"),
        ],
        predict=lambda s: {"exponent": law_beside(s)[0]},
        measure=slope,
        tolerance=5e-3,
        instances=instance,
        controls=[
            Control("the rest falls as 1/t", instance, lambda s: {"exponent": 1.0}, formula=True)
        ],
        runs=window,
        nets=(Deep,),
        problems=(Classification,),
        dynamics=(Flow,),
        needs=cases.THETA,
        paper=SOUDRY,
        title="the exponent of the offset law",
        own=True,
    ),
    Theorem(
        "margin.entropy_gap",
        r"The margin of the $\ell_2$ flow of a linear classifier misses the largest by $1/\log t$ "
        r"with the constant $(\gamma - \gamma_t)\|w\| \to H(p^*) - H_\infty(p^*)$, Shannon's "
        r"entropy of the dual weights less their min-entropy.",
        hypotheses=[
            *SAME,
            kind("its clock is the loss", lambda s: s.dynamics.axis == "log_time"),
            kind("dual weights differ", lambda s: cases.law(s).entropy_gap > 1e-3),
            Hypothesis("the run is long", early, 0.05, True, "O(1/log³t)"),
        ],
        predict=gap,
        measure=missing,
        tolerance=1e-3,
        instances=unequal,
        controls=[
            Control("there is one layer", two_layers),
            Control("Shannon's entropy alone", unequal, shannon, formula=True),
        ],
        runs=thrice,
        nets=(Deep,),
        problems=(Classification,),
        dynamics=(Flow,),
        needs=cases.THETA,
        paper=SOUDRY,
        title="the constant of 1/log t",
        own=True,
    ),
)
