"""How long the way to the manifold takes, and what label-noise SGD finds at the end of the next."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.interpolate
import scipy.optimize
import xarray as xr

from ...dynamics import Descent
from ...noise import LabelNoise
from ...theory import diagonal
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Hypothesis,
    Measured,
    Measurements,
    Setup,
    Theorem,
    Until,
    at_most,
    common,
    fact,
    kind,
    measured,
    setup_of,
)
from . import _instances as cases
from ._lemma_6_5 import certificate, clear, unique
from ._measurements import end_time, mean_of
from ._paper import DIAGONAL_STEPS
from ._steps import (
    RECORD,
    at_both,
    label_noise,
    landed,
    noisy,
    steps_hypotheses,
    strength,
    two_steps,
)
from ._two_steps import extrapolated, half_step, members, small_step

SPAN = 120.0  # of the time k·lr·sharpness
SPACING = 0.4  # of saves, in the same units
FALL = 0.1  # of the loss: where Phase I is said to end
RESOLVED = 2.0  # of the log of the loss: more than this between two saves tells no time
CROWD = 1024  # members, in groups
GROUPS = 16
SGD = LabelNoise(0.1, 2)
FLOW_SAVES = 2000


def quick(key: int, share: float = 0.005, momentum: float = 0.0) -> Setup:
    """Label-noise SGD with a step of `share`/sharpness."""
    saves = max(1, round(SPACING / share)) * np.arange(round(SPAN / max(SPACING, share)) + 1)
    setup = noisy(key, until=Until(steps=int(saves[-1])), save_at=saves)
    lr = share / sharpness(setup)
    return setup.replace(dynamics=Descent(lr, SGD, momentum=momentum))


@fact
def sharpness(setup: Setup) -> float:
    """The largest eigenvalue of the Hessian at the end of gradient flow, where the data are fitted.

    There it is 8·weight·JᵀJ, with the eigenvalues of the n × n matrix 8·weight·JJᵀ.
    """
    end = cases.diagonal_end(setup)
    problem = common.regression(setup)
    kernel = diagonal.tangent_kernel(problem, {"u": end.u, "v": end.v})
    return 2 * float(problem.weight) * float(np.linalg.norm(kernel, 2))


def phase_one_runs(setup: Setup) -> dict[str, Setup | Ensemble]:
    """SGD with this step and with half of it for the same time k·lr, and gradient flow."""
    lr = common.learning_rate(setup)
    saves = np.asarray(setup.save_at)
    time = lr * float(saves[-1])
    half = setup.replace(
        dynamics=half_step(setup), until=Until(steps=2 * int(saves[-1])), save_at=2 * saves
    )
    grid = np.linspace(0, time, FLOW_SAVES)
    flow = setup.replace(dynamics=cases.TIGHT, until=Until(time=time), save_at=grid)
    count = CROWD if label_noise(setup) else GROUPS
    return {"run": members(setup, count), "half": members(half, count), "flow": flow}


def predict_phase_one(setup: Setup) -> Claims:
    """The flow time of gradient flow, no longer than the PL constant allows."""
    constant = diagonal.pl_constant(common.regression(setup), setup.params)
    return {"ratio": 1.0, "time": at_most(-np.log(FALL) / constant)}


def measure_phase_one(runs: Mapping[str, Any]) -> Measurements:
    """The time k·lr, lr → 0, in which the loss of the mean predictor falls, over the flow's."""
    flow = runs["flow"]
    setup = setup_of(flow)
    times = np.asarray(setup.save_at, dtype=np.float64)
    last = times[-1]
    alone, unsure = _fall(setup, times, predictors(flow.data)[None])
    coarse, fine = (_mean_fall(setup, last, runs[name]) for name in ("run", "half"))
    time = extrapolated(coarse, fine)
    assert time.standard_error is not None
    return {
        "ratio": measured(
            time.value / alone,
            error=(2 * float(fine.error) + float(coarse.error) + unsure) / alone,
            standard_error=time.standard_error / alone,
        ),
        "time": measured(alone, error=unsure),
    }


def predictors(data: xr.Dataset) -> np.ndarray:
    """u² − v² at every save."""
    return data["params_u"].values ** 2 - data["params_v"].values ** 2


def _mean_fall(setup: Setup, last: float, members: xr.Dataset) -> Measured:
    """By the mean over all members; its standard error by leaving out one group after another."""
    theta = predictors(members)
    steps = members["step"].values
    times = last * steps / steps[-1]
    groups = np.array(np.split(theta, GROUPS)).mean(axis=1)
    without = (groups.sum(axis=0) - groups) / (GROUPS - 1)
    left = np.array([_fall(setup, times, one[None])[0] for one in without])
    time, off = _fall(setup, times, groups)
    return measured(time, error=off, standard_error=np.sqrt((GROUPS - 1) * left.var()))


def _fall(setup: Setup, times: np.ndarray, theta: np.ndarray) -> tuple[float, float]:
    """When the loss of the mean of these has fallen, and how well the saves tell.

    By a spline, and how far it is from a straight line. Where the loss falls by more than a factor
    between two saves nobody knows when; infinite where it has not fallen.
    """
    problem = common.regression(setup)
    miss = theta.mean(axis=0) @ np.asarray(problem.X).T - problem.Y.ravel()
    heights = np.log(np.sum(miss**2, axis=1))
    heights = heights - heights[0] - np.log(FALL)
    below = np.flatnonzero(heights < 0)
    if not len(below):
        return float(times[-1]), np.inf
    k = below[0]
    if heights[k - 1] - heights[k] > RESOLVED:
        return float(times[k]), float(times[k] - times[k - 1])
    near = slice(max(k - 4, 0), k + 4)
    spline = scipy.interpolate.CubicSpline(times[near], heights[near])
    bracket = (times[k - 1], times[k])
    time = float(scipy.optimize.root_scalar(spline, bracket=bracket).root)
    share = heights[k - 1] / (heights[k - 1] - heights[k])
    return time, abs(time - float(times[k - 1] + share * (times[k] - times[k - 1])))


def _label_noise_or_none(setup: Setup) -> bool:
    return isinstance(getattr(setup.dynamics, "noise", None), LabelNoise | None)


B10 = Theorem(
    "zeroloss.remarkB.10",
    r"Phase I, the way of SGD to the manifold, takes $\Theta(1/\eta)$ steps: its mean gets there "
    r"at the flow time $k\eta$ of gradient flow, whatever $\eta$ and the noise, and within "
    r"$\ln(L_0/L)/C$.",
    hypotheses=[
        common.one_output(),
        *common.plain(),
        kind("noise, if any, is on the labels", _label_noise_or_none),
        cases.fitted(),
        cases.start_without_zeros(),
        small_step(lambda s: common.learning_rate(s) * sharpness(s)),
    ],
    predict=predict_phase_one,
    measure=measure_phase_one,
    tolerance={"ratio": 0.002, "time": 0.0},
    instances=quick,
    controls=[Control("there is no momentum", lambda key: quick(key, momentum=0.5))],
    runs=phase_one_runs,
    needs=RECORD,
    title="the way to the manifold takes 1/lr steps",
    paper=DIAGONAL_STEPS,
)

LONG = 70_000
LONGEST = 16 * LONG
LONG_LR = 0.006
LANDED = 16  # members whose fits nearby are looked for: they hardly differ
ARRIVED = 0.003  # of the way is left where an instance ends


def planted(key: int, dynamics: Descent | None = None) -> Setup:
    """A sparse teacher that the data determine, and a long run with a small step."""
    problem = common.regression(clear(key))
    last = LONG

    def to(last: int) -> Setup:
        saves = np.unique(np.concatenate([[0], np.linspace(0.8 * last, last, 800).astype(int)]))
        return noisy(key, 1.0, LONG_LR, problem, until=Until(steps=last), save_at=saves)

    while last < LONGEST and still_on_the_way(to(last)) > ARRIVED:
        last += LONG
    return to(last) if dynamics is None else to(last).replace(dynamics=dynamics)


def predict_recovered(setup: Setup) -> Claims:
    """The solution of the weighted ℓ1 problem."""
    w = certificate(setup).w
    return {"theta": w, "fit": w}


def still_on_the_way(setup: Setup) -> float:
    """What the limiting flow has not finished by the end of the run."""
    t = end_time(setup)
    w = certificate(setup).w
    problem = common.regression(setup)
    u, v = diagonal.limiting_flow(problem, setup.params, t, strength(setup))
    return float(np.linalg.norm(u**2 - v**2 - w) / np.linalg.norm(w))


def measure_recovered(setup: Setup, members: xr.Dataset) -> dict[str, Measured]:
    """The mean predictor of the last fifth, and that of the fits nearby at the end."""
    u = members["params_u"].values[:, 1:]
    v = members["params_v"].values[:, 1:]
    return {
        "theta": mean_of((u**2 - v**2).mean(axis=1)),
        "fit": mean_of(landed(setup, u[:LANDED, -1], v[:LANDED, -1])),
    }


THM6_1 = Theorem(
    "zeroloss.thm6.1",
    r"Label-noise SGD on a diagonal net, from any start without zeros, finds the sparse teacher "
    r"after $O(1/\eta^2)$ steps, up to $O(\eta)$, where the weighted $\ell_1$ problem does.",
    hypotheses=[
        *steps_hypotheses(),
        unique(),
        Hypothesis("the run is long", still_on_the_way, 0.05, True, "what is left of the way"),
    ],
    predict=predict_recovered,
    measure=at_both(measure_recovered),
    tolerance=0.002,
    instances=planted,
    controls=[
        Control(
            "the noise is on the labels",
            lambda key: planted(key, Descent(LONG_LR)),
            predict_recovered,
        )
    ],
    runs=two_steps,
    needs=RECORD,
    slow=True,
    title="label noise recovers a sparse teacher",
    paper=DIAGONAL_STEPS,
)

THEOREMS = (B10, THM6_1)
