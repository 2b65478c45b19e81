"""The certificate of a run: two bounds on the best margin that close."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Flow
from ...nets import Deep
from ...observe import certificate
from ...plot import COLOURS
from ...problems import Classification, separable
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab


def problem(s: Settings) -> Classification:
    return separable(s.n, s.d, key=s.key)


def setup(s: Settings) -> Setup:
    """The flow of a linear predictor, to times that no step-by-step run reaches."""
    start = {"W1": np.random.default_rng(s.key).normal(size=(s.d, 1))}
    flow = Flow(clock="loss")
    until = Until(log_time=s.log_time)
    saves = np.linspace(0, s.log_time, s.saves)
    return Setup(problem(s), Deep([s.d, 1]), start, flow, until, [certificate()], saves)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    run = lab.simulate(setup(s))
    return xr.Dataset(
        {
            "lower": ("log_time", run.data["certificate_lower"].values),
            "upper": ("log_time", run.data["certificate_upper"].values),
            "best": problem(s).max_margin().gamma,
        },
        {"log_time": run.data["log_time"].values},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    ax.fill_between(data["log_time"], data["lower"], data["upper"], color=COLOURS[0], alpha=0.2)
    ax.plot(data["log_time"], data["upper"], color=COLOURS[0], label="no predictor exceeds")
    ax.plot(data["log_time"], data["lower"], color=COLOURS[1], label="this predictor has")
    ax.axhline(float(data["best"]), ls="--", color="black", lw=1, label="largest margin")
    ax.set(xlabel="log t", ylabel="margin", ylim=(0, None))
    ax.legend()


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    best = float(data["best"])
    end = data.isel(log_time=-1)
    return [
        Check("largest lower bound over the best", float(data["lower"].max()) / best, high=1.0),
        Check("least upper bound over the best", float(data["upper"].min()) / best, low=1 - 1e-9),
        Check("upper bound over the best, at the end", float(end["upper"]) / best, high=1.001),
        Check("lower bound over the best, at the end", float(end["lower"]) / best, low=0.97),
    ]


BAND = Figure(
    id="margin.band",
    title="A run proves how good its separator is",
    caption=(
        "Gradient flow of a linear classifier, on the clock of its own loss. The lower line is the "
        r"margin of the predictor, $m_{\min}/\|w\|$; the upper one $\|Z^\top p\|$ with the shares "
        "$p$ of the samples in its gradient, which no predictor of norm one can exceed. Neither "
        "needs a solver. The dashed line is the largest margin, from an exact active set. It lies "
        "between the two at every time; the upper bound arrives early, the lower as $1/\\log t$."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"n": 8, "d": 12, "log_time": 100.0, "saves": 101},
    default=True,
)
