"""Rich or lazy: it is γ against the solution that counts, and it trades speed for bias."""

import math
from collections.abc import Mapping

import numpy as np
import xarray as xr

from ... import observe
from ...dynamics import Flow
from ...problems import Regression
from ...theory.spectral import limit_gram, whitened_trajectory
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_least,
    common,
    equals,
    kind,
)
from . import _instances as cases
from ._facts import (
    I_GAMMA,
    ONE_OUTPUT,
    PLAIN,
    WHITENED,
    gamma_of,
    problem_of,
    scale_of,
    star,
    start,
)
from ._measurements import svdvals, transposed
from ._paper import PAPER

TIMES_AS_LARGE = 3.0
RATIOS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3)  # γ over |β*|


def both_sizes(setup: Setup) -> dict[str, Setup]:
    """The net, and one with layers λ times and labels λ² times as large, for a λ² shorter time."""
    problem = common.regression(setup)
    square = TIMES_AS_LARGE**2
    until = setup.until
    time = None if until.time is None else until.time / square
    other = setup.replace(
        problem=Regression(problem.X, square * problem.labels, problem.weight),
        params={name: TIMES_AS_LARGE * np.asarray(w) for name, w in setup.params.items()},
        until=Until(time=time, gap=until.gap),
        save_at=np.asarray(setup.save_at) / square,
    )
    return {"run": setup, "larger": other}


def predict_scaled(setup: Setup, runs: Mapping[str, Run], degree: int = 2) -> Claims:
    """λ² times the predictor of the run, and λ times its first layer."""
    factor = TIMES_AS_LARGE**degree
    return {
        "theta": factor * _reached(runs["run"], "theta"),
        "W1": TIMES_AS_LARGE * _reached(runs["run"], "params_W1"),
    }


def measure_scaled(runs: Mapping[str, Run]) -> Measurements:
    """Of the larger one."""
    count = len(_reached(runs["run"], "theta"))
    larger = runs["larger"].data
    return {"theta": larger["theta"].values[:count], "W1": larger["params_W1"].values[:count]}


def _reached(run: Run, name: str) -> np.ndarray:
    values = run.data[name].values
    return values[np.isfinite(run.data["theta"].values).reshape(len(values), -1).all(axis=1)]


def _finite_time(
    key: int, params: dict[str, np.ndarray] | None = None, decay: float = 0.0
) -> Setup:
    until = Until(time=float(cases.TIMES[-8]))
    flow = Flow(rtol=1e-12, weight_decay=decay)
    saves = cases.TIMES[:-7]
    return cases.flow(key, params=params, dynamics=flow, until=until, save_at=saves)


HOMOGENEITY = Theorem(
    "spectral.homogeneity",
    r"The model has degree 2 in its layers: $\lambda$ times the layers make $\lambda^2$ times the "
    r"predictor. So the flow from $\lambda W(0)$ to labels $\lambda^2Y$ is at the time "
    r"$t/\lambda^2$ where the flow from $W(0)$ to $Y$ is at $t$, in units of $\lambda$: of "
    r"$\gamma$ and $\beta^\star$ only the ratio counts.",
    hypotheses=[PLAIN],
    predict=predict_scaled,
    measure=measure_scaled,
    tolerance=1e-8,
    instances=_finite_time,
    controls=[
        Control("no weight decay, no momentum", lambda key: _finite_time(key, decay=0.05)),
        Control(
            "degree 1",
            _finite_time,
            lambda setup, runs: predict_scaled(setup, runs, 1),
            formula=True,
        ),
    ],
    runs=both_sizes,
    given=("path",),
    title="only the ratio of γ and the solution counts",
    problems=(Regression,),
    dynamics=(Flow,),
    paper=PAPER,
)


SOLVED = kind("the solution is not zero", lambda s: star(s).max() > 0)


def over_ratios(setup: Setup) -> Ensemble:
    """The same start in shape, with γ from far below to far above the solution."""
    size = float(star(setup)[0])
    unit = np.asarray(start(setup).W1) / math.sqrt(gamma_of(setup))
    second = np.asarray(start(setup).W2) / math.sqrt(gamma_of(setup))

    def build(ratio: float) -> Setup:
        root = math.sqrt(float(ratio) * size)
        return setup.replace(
            params={"W1": root * unit, "W2": root * second},
            record={"params": observe.params},
            save_at=[0.0],
            until=Until(gap=1e-26, time=1e6),
        )

    return Ensemble(build, {"ratio": RATIOS})


def gammas(setup: Setup) -> np.ndarray:
    """γ of every member."""
    return float(star(setup)[0]) * np.asarray(RATIOS)


def predict_moved(setup: Setup) -> Claims:
    """‖W1W1ᵀ − 2γI‖/(2γ√d), and the orders in γ/|β*| at both ends."""
    problem = problem_of(setup)
    beta = problem.as_predictor(problem.min_norm)
    d = problem.d
    moved = [
        float(np.linalg.norm(limit_gram(beta, g).M / (2 * g) - np.eye(d))) / math.sqrt(d)
        for g in gammas(setup)
    ]
    values = np.asarray(moved)
    return {
        "change of W1W1ᵀ": equals(values, scale=values),
        "order, rich": -1.0,
        "order, lazy": -2.0,
    }


def measure_moved(members: xr.Dataset) -> Measurements:
    """The same at the ends of the members; the orders between the two at either end."""
    W1 = members["params_W1_end"].transpose("ratio", ...).values
    first = members["params_W1"].transpose("ratio", ...).values
    first = first.reshape(len(W1), -1, *W1.shape[1:])[:, 0]
    before = first @ transposed(first)
    change = np.linalg.norm(W1 @ transposed(W1) - before, axis=(1, 2))
    moved = change / np.linalg.norm(before, axis=(1, 2))
    slope = np.diff(np.log(moved)) / np.diff(np.log(RATIOS))
    return {"change of W1W1ᵀ": moved, "order, rich": slope[0], "order, lazy": slope[-1]}


RICH_LAZY = Theorem(
    "spectral.rich_lazy",
    r"From $I_\gamma$ training changes $W_1W_1^T = 2\gamma I$, relative to itself, by "
    r"$\|\gamma^{-1}\sqrt{\gamma^2+\beta^\star\beta^{\star T}}-I\|/2\sqrt{d}$: by much more "
    r"than 1 for $\gamma \ll |\beta^\star|$ (rich, as $|\beta^\star|/\gamma$), and hardly at "
    r"all for $\gamma \gg |\beta^\star|$ (lazy, as $(|\beta^\star|/\gamma)^2$).",
    hypotheses=[PLAIN, I_GAMMA, SOLVED],
    predict=predict_moved,
    measure=measure_moved,
    tolerance={"change of W1W1ᵀ": 1e-7, "order, rich": 1e-3, "order, lazy": 1e-3},
    instances=cases.flow,
    paper_size=cases.paper,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    runs=over_ratios,
    title="rich or lazy",
    dynamics=(Flow,),
    paper=PAPER,
)

TRADED = (0.03, 0.1, 0.3, 1.0, 3.0)  # γ over |β*|, where both speed and bias can be seen
SOON = 0.5  # of the time in which the middle one learns half


def over_traded(setup: Setup) -> Ensemble:
    """From small to large starts, saved early on and followed to the end."""
    build = over_ratios(setup).build
    at = _soon(setup)
    return Ensemble(
        lambda ratio: build(ratio).replace(
            record={"theta": observe.theta, "params": observe.params}, save_at=[0.0, at]
        ),
        {"ratio": TRADED},
    )


def _soon(setup: Setup) -> float:
    """An early time: of the order of the solution's own rate."""
    return SOON / (scale_of(setup) * float(star(setup)[0]))


def predict_traded(setup: Setup) -> Claims:
    """What is missing early on, and the energy above the nuclear norm at the end."""
    size = float(star(setup)[0])
    each = size * np.asarray(TRADED)
    t = np.array([_soon(setup)])
    learned = [whitened_trajectory(np.array([size]), g, t, scale_of(setup))[0, 0] for g in each]
    missing = 1 - np.asarray(learned) / size
    # W1 has √(2γ) in all other directions; W2 has none.
    energy = (np.hypot(size, each) + (setup.problem.d - 1) * each) / size
    steps = np.zeros(len(TRADED) - 1)
    return {
        "missing early": missing,
        "energy over nuclear norm": energy,
        "a larger start is faster": at_least(steps, scale=1.0),
        "a smaller start has less energy": at_least(steps, scale=1.0),
    }


def measure_traded(members: xr.Dataset) -> Measurements:
    """The same of the members, and how both change from one to the next."""
    ordered = members.transpose("ratio", ...)
    theta = ordered["theta"].values.reshape(len(TRADED), 2, -1)[:, -1]
    W1 = ordered["params_W1_end"].values
    W2 = ordered["params_W2_end"].values
    size = np.linalg.norm(W1 @ W2, axis=(1, 2))
    missing = 1 - np.linalg.norm(theta, axis=1) / size
    energy = (np.sum(W1**2, axis=(1, 2)) + np.sum(W2**2, axis=(1, 2))) / 2
    over = energy / svdvals(W1 @ W2).sum(axis=1)
    return {
        "missing early": missing,
        "energy over nuclear norm": over,
        "a larger start is faster": -np.diff(missing),
        "a smaller start has less energy": np.diff(over),
    }


TRADE_OFF = Theorem(
    "spectral.tradeoff",
    r"Speed against bias, one output, whitened data: the larger $\gamma$, the less is missing of "
    r"$\beta^\star$ at any early time (Theorem C.12), and the more the energy "
    r"$\frac{1}{2}\|W_1\|^2+\frac{1}{2}\|W_2\|^2$ exceeds the nuclear norm at the end: it is "
    r"$\sqrt{|\beta^\star|^2+\gamma^2}+(d-1)\gamma$.",
    hypotheses=[ONE_OUTPUT, PLAIN, WHITENED, I_GAMMA, SOLVED],
    predict=predict_traded,
    measure=measure_traded,
    tolerance=1e-8,
    instances=lambda key: cases.flow(key, k=1, whitened=True),
    controls=[Control("the init is I_γ", lambda key: cases.anisotropic(key, k=1, whitened=True))],
    runs=over_traded,
    title="a larger start is faster and has more bias",
    dynamics=(Flow,),
    paper=PAPER,
)
