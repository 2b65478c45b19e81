"""Sections 3.1 and 3.2: how far from the solution of least norm gradient flow ends."""

import math
from typing import Any

import numpy as np

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Isotropic
from ...numerics.host_rng import generator
from ...theory.imbalance import bias_bound, bias_law, invariant_residual, split
from .. import _shared_hypotheses as common
from .._claims import at_most, equals, measured
from .._erratum import Erratum
from .._hypothesis import Hypothesis, kind
from .._per_setup import fact
from .._shared_measurements import limit
from .._theorem import Control, Ensemble, Theorem, Told, Undecided
from . import _errata as evidence
from . import _instances as cases
from ._facts import (
    ABOUT,
    BOTH,
    BOUND,
    DIES_OUT,
    IMBALANCED,
    OF_DATA,
    PLAIN,
    QUIET,
    SOMETHING,
    STEP,
    compressed,
    errors,
    growth_widening,
    norms,
    path,
    problem_of,
    pulls,
    small_step,
    start,
)
from ._facts_gaussian import GAUSSIAN
from ._section_2 import states

DRAWS = 80
GAP, ARRIVED = 1e-24, 1e-2  # to stop at; and what an unfinished fit may leave, of the distance
LARGEST = 1e70  # of numbers whose fourth power is one, too
ROUNDING = 1e-20  # of a squared distance: that of its numbers is 1e-10 of the layers
HIDDEN = 1e-10  # of the first layer: a part that the data do not see and that is not rounding


def _has_unseen(setup: Setup) -> bool:
    size = float(np.linalg.norm(setup.params["W1"]))
    return bool(np.linalg.norm(start(setup).U2) > HIDDEN * size)


UNSEEN = kind("some of the start is unseen by the data", _has_unseen)


def _ends(setup: Setup, runs: Any) -> dict[str, Any]:
    problem = problem_of(setup)
    bias = split(problem).Phi2 @ start(setup).U2 @ runs["run"].final["W2"]
    theta = problem.min_norm + problem.at_edge(bias)
    return {"theta": equals(theta, scale=float(np.linalg.norm(theta)) or _sized(setup) or 1.0)}


EQ14 = Theorem(
    "imbalance.eq14",
    r"Gradient flow, and descent with any step that converges, ends at "
    r"$\Theta(\infty) = \Theta^\star + \Phi_2U_2(0)V(\infty)^T$, with $\Theta^\star = X^+Y$ the "
    r"minimiser of least Frobenius norm.",
    [common.no_decay(), OF_DATA, DIES_OUT, SOMETHING],
    _ends,
    lambda runs: {"theta": limit(runs["run"])},
    1e-8,
    cases.setup,
    [Control("there is no weight decay", cases.decaying)],
    given=("second layer at the end",),
    dynamics=BOTH,
    errata=[
        Erratum(
            "Eq (11), footnote 1",
            r"$\Theta^\star$ is the interpolator of least spectral norm",
            r"of least Frobenius norm; for $m > 1$ that of least spectral norm is not unique",
            "numeric",
            evidence.spectral_norm,
        ),
        Erratum(
            "before Prop. 1",
            r"$\Phi_2^TU_2V^T = 0$",
            r"$U_2V^T = 0$",
            "ill-typed",
            note="Φ2ᵀ is (D − r, D) and U2 has D − r rows",
        ),
    ],
    title="where the flow ends",
    **ABOUT,
)


def _residual_velocity(setup: Setup, runs: Any) -> dict[str, Any]:
    run, problem = runs["run"], problem_of(setup)
    parts, m = split(problem), problem.k
    E = errors(problem, path(run))
    rows = []
    for error, params in zip(E, states(run), strict=True):
        Zr, push = invariant_residual(problem, params), parts.sigma[:, None] * error
        rows.append(parts.speed * np.concatenate([push.T @ Zr[m:], push @ Zr[:m]]))
    return {"velocity": equals(np.asarray(rows), scale=_largest_velocity(setup, run, E))}


def _largest_velocity(setup: Setup, run: Any, E: np.ndarray) -> np.ndarray:
    """σ_1‖E‖‖Z‖‖U2‖ at every save: a start on the invariant set has Z_r = 0, up to rounding.

    E is a difference, and rounded as its terms are.
    """
    parts, Z = split(problem_of(setup)), norms(path(run).Z)
    terms = float(np.linalg.norm(parts.B)) + parts.sigma[0] * Z**2
    push = parts.speed * parts.sigma[0] * (norms(E) + 1e-6 * terms)
    # Never zero: where all layers are, so is what moves them.
    return np.maximum(push * Z * np.linalg.norm(start(setup).U2), 1e-300)[:, None, None]


def _seen_residual(runs: Any) -> dict[str, Any]:
    """From the gradients, with U2 as it was at the start."""
    run = runs["run"]
    return {"velocity": -pulls(run).Z @ start(run.setup).U2.T}


EQ16 = Theorem(
    "imbalance.eq16",
    r"The residual $Z_r = [VU_2^T; U_1U_2^T]$ obeys $\dot Z_r = A Z_r$, where $A$ has the blocks "
    r"$E^T\sqrt{S}$ and $\sqrt{S}E$ off its diagonal: what is zero stays zero.",
    [*PLAIN, UNSEEN],
    _residual_velocity,
    _seen_residual,
    1e-8,
    cases.setup,
    [Control("there is no weight decay", cases.decaying)],
    given=("path",),
    dynamics=BOTH,
    title="how the bias grows",
    **ABOUT,
)


def _away(setup: Setup) -> dict[str, Any]:
    found = bias_bound(problem_of(setup), setup.params)
    simple = math.exp(found.log_simple) if found.log_simple < 709 else math.inf
    # A bound of zero is one: errors are then counted by the size of the solution.
    size = max(float(np.linalg.norm(problem_of(setup).min_norm)), 1e-300)
    return {
        "distance": at_most(simple, scale=max(min(simple, 1e300), size)),
        "distance, sharper": at_most(found.bound, scale=max(min(found.bound, 1e300), size)),
    }


def _furthest(runs: Any) -> dict[str, Any]:
    """The largest part of the predictor that the data do not see."""
    run = runs["run"]
    now = path(run)
    sizes = np.linalg.norm(now.U2 @ np.swapaxes(now.V, 1, 2), axis=(1, 2))
    return {"distance": sizes.max(), "distance, sharper": sizes.max()}


def shaken(key: int) -> Setup:
    """Noise that also moves what the data do not see, from the invariant set."""
    at = cases.projected(key)
    return cases.setup(
        key,
        at.params,
        Descent(0.01, Isotropic(6.0)),
        at.problem,
        until=Until(steps=1000),
        save_at=np.round(np.linspace(0, 1000, cases.SAVES)),
    )


EQ42 = Theorem(
    "imbalance.eq42",
    r"With $\theta = \sqrt{\lambda_1}\|E(0)\|_F/(\lambda_rc)$, at all times "
    r"$\|U_2V^T\|_F \le e^\theta\|Z_r(0)\|_F$, and sharper, "
    r"$\|U_2V^T\|_F \le \cosh\theta\,\|V(0)U_2^T\|_F + \sinh\theta\,\|U_1(0)U_2^T\|_F$.",
    [*PLAIN, IMBALANCED, STEP, small_step(growth_widening, BOUND)],
    _away,
    _furthest,
    1e-9,
    cases.setup,
    [Control("there is no noise", shaken)],
    dynamics=BOTH,
    errata=[
        Erratum(
            "App. E, (43)-(44)",
            r"$E(0) = W^TY - S^{-1/2}U_1V^T$, $\|E(0)\| \le \|Y\| + "
            r"\lambda_r^{-1/2}\|U_1V^T\|$",
            r"$E(0) = W^TY - \sqrt{S}U_1V^T$, $\|E(0)\|_F \le \|Y\|_F + "
            r"\sqrt{\lambda_1}\|U_1V^T\|_F$",
            "bound",
            evidence.first_error,
            note="the exponent λ1^½/λr^(3/2) becomes λ1/λr",
        ),
        Erratum(
            "App. E, end of the proof",
            r"$\|\Phi_2U_2V^T\|_F$ for the spectral norm",
            "the Frobenius bound holds, and with it the other",
            "convention",
        ),
    ],
    title="a bound on the bias",
    **ABOUT,
)


def _sized(setup: Setup) -> float:
    """The solution's norm; that of the start's layers where it is zero."""
    size = float(np.linalg.norm(problem_of(setup).min_norm))
    return size if size > 0 else float(np.sum(start(setup).Z ** 2))


def _off_set(setup: Setup) -> float:
    size = float(np.linalg.norm(start(setup).Z)) * float(np.linalg.norm(start(setup).U2))
    found = float(np.linalg.norm(invariant_residual(problem_of(setup), setup.params)))
    return found / size if size > 0 else 0.0


PROP1 = Theorem(
    "imbalance.prop1",
    r"If $V(0)U_2^T = 0$ and $U_1(0)U_2^T = 0$, gradient flow ends at the solution of least norm, "
    r"and so does descent with any step and any minibatches that converge.",
    [
        common.no_decay(),
        OF_DATA,
        DIES_OUT,
        SOMETHING,
        Hypothesis("VU2ᵀ = 0 and U1U2ᵀ = 0 at the start", _off_set, 1e-11),
        IMBALANCED,
    ],
    lambda s: {"theta": equals(problem_of(s).min_norm, scale=_sized(s))},
    lambda runs: {"theta": limit(runs["run"])},
    1e-8,
    cases.projected,
    [
        Control("U1U2ᵀ = 0: VU2ᵀ = 0 alone is not enough", cases.off_second),
        Control("the start is not zero, which is stationary", cases.nothing),
        Control("VU2ᵀ = 0 and U1U2ᵀ = 0 at the start", cases.setup),
    ],
    dynamics=BOTH,
    title="an invariant set that ends at least norm",
    **ABOUT,
)


@fact
def _spread(setup: Setup) -> float:
    """The standard deviation of U2."""
    return float(np.sqrt(np.mean(start(setup).U2 ** 2)))


def _to_the_end(setup: Setup) -> Setup:
    """The same, but closer to the limit that the law is about: an ensemble of its own may be."""
    until = setup.until
    if until.gap is None or until.gap <= GAP:
        return setup
    limits = {"steps": until.steps, "time": until.time, "check_every": until.check_every}
    return setup.replace(until=Until(gap=GAP, **limits))


def _misfits(problem: Any, data: Any) -> np.ndarray:
    """How far the members still are from fitting, in the row space."""
    theta = data["params_W1_end"].values @ data["params_W2_end"].values
    return norms(problem.row_space.T @ (theta - problem.as_predictor(problem.min_norm)))


def redrawn(setup: Setup) -> Ensemble:
    """The same start with fresh draws of what the data do not see.

    Of a wide net in the frame of what they do see: no other part of U2 ever reaches the outputs.
    """
    parts, std = split(problem_of(setup)), _spread(setup)
    now = compressed(setup, start(setup))
    seen, last = parts.Phi1 @ now.U1, now.V.T
    net = TwoLayer(problem_of(setup).d, problem_of(setup).k, len(last))
    away = observe.distance_to(problem_of(setup).min_norm)
    sharper = _to_the_end(setup)

    def build(draw: int) -> Setup:
        rng = generator(setup.key + int(draw), "theorems.imbalance U2")
        params = {"W1": seen + parts.Phi2 @ (std * rng.standard_normal(now.U2.shape)), "W2": last}
        return sharper.replace(
            net=net,
            params=params,
            record={"away": away, "params": observe.params},
            save_at=[setup.save_at[-1]],
            key=setup.key + int(draw),
        )

    return Ensemble(build, {"draw": np.arange(DRAWS)})


def _law(setup: Setup, runs: Any) -> Told:
    """Moments and median of the χ² mixture, for the second layers at the end."""
    problem, ends = problem_of(setup), runs["run"]["params_W2_end"].values
    h, first = ends.shape[1], start(setup).V
    away = np.maximum(runs["run"]["away_end"].values, 1e-300)
    if not max(np.abs(ends).max(), away.max()) < LARGEST:  # or NaN
        raise Undecided("some draws of the start diverge: a smaller step would decide")
    alpha = -math.log(_spread(setup)) / math.log(h)
    W1 = np.zeros((problem.d, h))  # not looked at
    laws = [bias_law(problem, {"W1": W1, "W2": W2}, alpha) for W2 in ends]
    # Second layers may vanish, and distances with them.
    least = ROUNDING * max(_spread(setup) * float(np.linalg.norm(start(setup).Z)), 1e-70) ** 2
    values = {
        name: equals(value, scale=max(value, least**power))
        for name, value, power in (
            ("mean square", float(np.mean([law.mean for law in laws])), 1),
            ("mean fourth power", float(np.mean([law.variance + law.mean**2 for law in laws])), 2),
            ("median square", float(laws[0].quantile(0.5)), 1),
        )
    } | {
        # It may go to zero: then it is compared with where it came from.
        "second layer": equals(0.0, scale=max(float(np.abs(x).max()) for x in (ends[0], first))),
    }
    # Members that have not converged are further away than V says.
    left = float(np.max(_misfits(problem, runs["run"]) / away))
    return Told(values, residual=0.0 if left <= ARRIVED else left)


def _distances(runs: Any) -> dict[str, Any]:
    data = runs["run"]
    squares = np.sort(data["away_end"].values ** 2)
    ends = data["params_W2_end"].values
    n = len(squares)
    low, high = (squares[int((n + s * math.sqrt(n)) / 2)] for s in (-1, 1))
    return {
        "mean square": _mean(squares),
        "mean fourth power": _mean(squares**2),
        "median square": measured(float(np.median(squares)), standard_error=(high - low) / 2),
        "second layer": float(np.abs(ends - ends[0]).max()),
    }


def _mean(values: np.ndarray) -> Any:
    spread = float(np.std(values)) / math.sqrt(len(values))
    return measured(float(np.mean(values)), standard_error=spread)


BIAS_LAW = Theorem(
    "imbalance.bias_law",
    r"For a Gaussian start, given $V(\infty)$ with singular values $s_j$, the squared distance to "
    r"the solution of least norm is distributed as $h^{-2\alpha}\sum_j s_j^2\chi^2_{D-r}$: "
    r"$U_2$ takes no part in the motion of $V$.",
    [
        common.no_decay(),
        QUIET,
        SOMETHING,
        UNSEEN,
        kind("width is at least 2", lambda s: start(s).V.shape[1] > 1),
        GAUSSIAN,
    ],
    _law,
    _distances,
    # Of the means, what so many draws can tell apart; the second layer is the same in all of them.
    {
        "mean square": 0.1,
        "mean fourth power": 0.1,
        "median square": 0.1,
        "second layer": 1e-8,
    },
    cases.setup,
    [Control("there is no noise", shaken)],
    runs=redrawn,
    given=("second layer at the end",),
    dynamics=BOTH,
    title="the distribution of the bias",
    **{**ABOUT, "needs": (), "narrow": False},
)

THEOREMS = (EQ14, PROP1, EQ16, EQ42, BIAS_LAW)
