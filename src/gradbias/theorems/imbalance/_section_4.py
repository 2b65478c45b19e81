"""Section 4: balanced starts, for which the imbalance certifies nothing."""

import math
from collections.abc import Mapping

import numpy as np

from ...dynamics import Flow
from ...problems import Regression
from ...theory.imbalance import balanced_two_layer, riccati_solution, split
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_least,
    common,
    equals,
    fact,
    kind,
    measured,
    setup_of,
)
from . import _instances as cases
from ._facts import (
    BOTH,
    PLAIN,
    STEP,
    compressed,
    drift,
    frame_of,
    on_the_way,
    path,
    problem_of,
    pulls,
    reached,
    small_step,
    start,
    times,
)
from ._paper import PAPER
from ._thm_1 import above_minimum

UNTIL = 12.0  # e-foldings of the slowest mode that are followed before rounding takes over


@fact
def _unbalanced(setup: Setup) -> float:
    size = float(np.sum(start(setup).Z ** 2))
    return float(np.linalg.norm(start(setup).Lam)) / size if size else 0.0


BALANCED = Hypothesis("U1ᵀU1 = VᵀV at the start", _unbalanced, 1e-10)


def _seen_rank(setup: Setup) -> float:
    """1 if the predictor has less than full rank inside the row space."""
    s = np.linalg.svd(start(setup).product, compute_uv=False)
    m = start(setup).V.shape[0]
    full = len(s) == m and s[-1] > 1e-8 * max(s[0], 1e-300)
    return 0.0 if full and m <= start(setup).V.shape[1] else 1.0


FULL = Hypothesis("Θ(0) has full rank inside the row space", _seen_rank, 0.5)


def other_frame(setup: Setup) -> dict[str, Setup]:
    """The same predictor, balanced with another Q."""
    problem = problem_of(setup)
    h = start(setup).V.shape[1]
    Q = cases.frame(cases.draws(setup.key, "another Q"), h, problem.k)
    theta0 = problem.at_edge(np.asarray(setup.params["W1"]) @ np.asarray(setup.params["W2"]))
    params = balanced_two_layer(problem, theta0, h, Q)
    return {"run": setup, "other": setup.replace(params=params)}


def predict_one_path(setup: Setup, runs: Mapping[str, Run]) -> Claims:
    shape = runs["run"].data["theta"].values[reached(runs["run"])].shape
    q = frame_of(setup).shape[1]
    return {
        "theta": equals(np.zeros(shape), scale=on_the_way(setup)),
        "imbalance": equals(np.zeros((shape[0], q, q)), scale=float(np.sum(start(setup).Z ** 2))),
    }


def measure_one_path(runs: Mapping[str, Run]) -> Measurements:
    run = runs["run"]
    other = runs["other"]
    difference = run.data["theta"].values - other.data["theta"].values
    count = int(np.sum(reached(run)))
    Lam = compressed(setup_of(other), path(other)).Lam
    return {"theta": difference[:count], "imbalance": Lam[:count]}


BALANCED_INIT = Theorem(
    "imbalance.balanced",
    r"With $M = \Theta_0^T\Phi_1\Phi_1^T\Theta_0 = R^4$ and $Q^TQ = I$, $U = \Theta_0R^{-1}Q^T$ "
    r"and $V = RQ^T$ have the product $\Theta_0$ and $\Lambda = 0$, which gradient flow keeps; its "
    r"path does not depend on $Q$. Needs $r \ge m$, $h \ge m$ and $M$ invertible.",
    hypotheses=[
        *PLAIN,
        FULL,
        BALANCED,
        STEP,
        small_step(lambda s: drift(s) / float(np.sum(start(s).Z ** 2))),
    ],
    predict=predict_one_path,
    measure=measure_one_path,
    tolerance=1e-10,
    instances=cases.balanced,
    controls=[Control("U1ᵀU1 = VᵀV at the start", cases.setup)],
    runs=other_frame,
    given=("number of saves",),
    dynamics=BOTH,
    errata=[
        Erratum(
            "Section 4 and App. A.1",
            r"$V = RQ$ with $R^4 = M$",
            r"$V = RQ^T$",
            "misprint",
            quote=r"V_{\text{balanced}}(0) = \left[\Theta^T(0) \Phi_1 \Phi_1^T \Theta(0) "
            r"\right]^{1/4} Q.",
            note="(m, m) times (h, m). If M is singular, a Θ0 with Θ0x ≠ 0 and Φ1ᵀΘ0x = 0 has no "
            "balanced factorisation at all, and balanced_two_layer refuses it. The whole "
            "UᵀU − VᵀV is not zero, only the part that the data see",
        )
    ],
    title="balanced starts with a given predictor",
    paper=PAPER,
)


def opposite(key: int, sign: float = -1.0) -> Setup:
    """Whitened data of rank m, and a balanced start whose determinant has this sign, times B's."""
    rng = cases.draws(key, "opposite")
    D, _, _, m, width = cases.sizes(key)
    problem = _two_scales(cases.regression(key, r=m, whitened=True), rng)
    parts = split(problem)
    Q = cases.frame(rng, width, m)
    theta1 = rng.standard_normal((m, m))
    if np.sign(np.linalg.det(theta1) * np.linalg.det(parts.B)) != sign:
        theta1[:, 0] *= -1
    theta0 = parts.Phi1 @ (0.5 * theta1) + 0.3 * parts.Phi2 @ rng.standard_normal((D - m, m))
    params = balanced_two_layer(problem, theta0, width, Q)
    least = np.linalg.svd(parts.B, compute_uv=False)[-1]
    last = UNTIL / (parts.speed * parts.sigma[0] * least)
    at = np.concatenate([[0.0], np.geomspace(1e-3 * last, last, cases.SAVES - 1)])
    return cases.setup(key, params, problem=problem, until=Until(time=last), save_at=at)


def _two_scales(problem: Regression, rng: np.random.Generator) -> Regression:
    """Labels with singular values far apart: their difference is how fast the saddle is reached."""
    left = problem.svd[0]
    m = problem.k
    both = [cases.frame(rng, m, m) for _ in range(2)]
    B = (both[0] * rng.uniform(0.9, 1.1, m) * np.linspace(1.2, 0.4, m)) @ both[1].T
    labels = problem.labels + left @ (B - left.T @ problem.labels)
    return Regression(problem.X, labels, problem.weight)


@fact
def barrier(setup: Setup) -> float:
    """weight·sv_min(B)²: the loss of the best predictor of lower rank."""
    parts = split(problem_of(setup))
    return float(parts.weight * np.linalg.svd(parts.B, compute_uv=False)[-1] ** 2)


@fact
def horizon(setup: Setup) -> np.ndarray:
    """The saves before rounding, which grows at the saddle, can have left it."""
    parts = split(problem_of(setup))
    least = float(np.linalg.svd(parts.B, compute_uv=False)[-1])
    fastest = parts.speed * parts.sigma[0] * least
    return times(setup) * fastest <= UNTIL * (1 + 1e-9)


def _wrong_side(setup: Setup) -> bool:
    parts = split(problem_of(setup))
    W = start(setup).product
    if W.shape[0] != W.shape[1]:
        return False
    return bool(np.linalg.det(W) * np.linalg.det(parts.B) < 0)


def predict_stuck(setup: Setup) -> Claims:
    value = barrier(setup)
    count = int(np.sum(horizon(setup)))
    return {"excess loss": at_least(np.full(count, value)), "lowest": value}


def measure_stuck(run: Run) -> Measurements:
    setup = setup_of(run)
    values = above_minimum(run)[horizon(setup)]
    at = int(np.argmin(values))
    # What is left to fall: its present speed over the slowest rate, that of the directions.
    fall = float(np.sum(pulls(run).Z[at] ** 2))
    parts = split(problem_of(setup))
    s = np.linalg.svd(parts.B, compute_uv=False)
    slowest = parts.speed * parts.sigma[-1] * float(min(s[-1], *-np.diff(s), s[-1]))
    error = fall / slowest if slowest > 0 else math.inf
    return {"excess loss": values, "lowest": measured(values[at], error=error)}


SADDLE = Theorem(
    "imbalance.saddle",
    r"A balanced start with $m = r$ whose $\det(U_1V^T)$ has the sign opposite to that of "
    r"$\det(W^TY)$ never fits the data: $\|E\| \ge \sigma_{min}(W^TY)$ at all times, and the flow "
    r"ends at the saddle where they are equal. (Followed for 12 e-foldings; later rounding leaves "
    r"it.)",
    hypotheses=[
        *PLAIN,
        FULL,
        kind("there are as many outputs as the rank", lambda s: np.equal(*start(s).product.shape)),
        BALANCED,
        kind("determinants have opposite signs", _wrong_side),
        STEP,
    ],
    predict=predict_stuck,
    measure=measure_stuck,
    tolerance=1e-8,
    instances=opposite,
    controls=[Control("determinants have opposite signs", lambda key: opposite(key, 1.0))],
    dynamics=BOTH,
    title="balanced starts can end at a saddle",
    paper=PAPER,
    own=True,
)


def _unwhite(setup: Setup) -> float:
    sigma = split(problem_of(setup)).sigma
    return float(np.ptp(sigma) / sigma[0]) if len(sigma) else math.inf


def predict_closed_form(setup: Setup) -> Claims:
    grams = riccati_solution(problem_of(setup), setup.params, times(setup))
    size = float(np.abs(grams.UV).max())
    return {
        "U1Vᵀ": equals(grams.UV, scale=size),
        "VVᵀ": equals(grams.VV, scale=float(np.abs(grams.VV).max())),
    }


def predict_as_balanced(setup: Setup) -> Claims:
    """What the closed form would say, were the start balanced with the same predictor."""
    problem = problem_of(setup)
    h = start(setup).V.shape[1]
    params = balanced_two_layer(problem, common.start(setup), h)
    return predict_closed_form(setup.replace(params=params))


def measure_closed_form(run: Run) -> Measurements:
    now = path(run)
    return {"U1Vᵀ": now.product, "VVᵀ": now.V @ np.swapaxes(now.V, 1, 2)}


RICCATI = Theorem(
    "imbalance.riccati",
    r"On whitened data ($S = I$) from a balanced start, $G = [V; U_1][V; U_1]^T$ is "
    r"$G(t) = R(I+\int_0^tR^TR)^{-1}R^T$ with $R = e^{Ft}[V; U_1](0)$ and $F$ with the blocks "
    r"$W^TY$ and its transpose off the diagonal.",
    hypotheses=[*PLAIN, Hypothesis("the data are whitened", _unwhite, 1e-9), BALANCED],
    predict=predict_closed_form,
    measure=measure_closed_form,
    tolerance=1e-8,
    instances=lambda key: cases.balanced(key, whitened=True),
    controls=[
        Control(
            "U1ᵀU1 = VᵀV at the start",
            lambda key: cases.setup(key, problem=cases.regression(key, whitened=True)),
            predict_as_balanced,
        )
    ],
    dynamics=(Flow,),
    title="balanced nets in closed form",
    paper=PAPER,
    own=True,
)

THEOREMS = (BALANCED_INIT, SADDLE, RICCATI)
