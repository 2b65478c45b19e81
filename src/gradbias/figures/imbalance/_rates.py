"""Figures 2 and 3: imbalance makes two-layer nets learn fast."""

import numpy as np
import xarray as xr

from ... import init, observe, problems, theory
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import TwoLayer
from ...plot import BLACK, COLOURS
from ...problems import Regression
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._width import SIZES

SAVES = 120
BALANCED = "balanced"
MARKS = "o^sD"


def data(s: Settings) -> Regression:
    """Inputs whose singular values are all one."""
    return problems.whitened(s.n, s.d, key=s.key)


def starts(s: Settings) -> dict[str, dict[str, np.ndarray]]:
    """The same predictor four times: three shares of the layers, and none of the imbalance."""
    net = TwoLayer(s.d, 1, s.width)
    problem = data(s)
    found = {
        f"case {number}": init.gaussian(net, {"W1": first, "W2": last}, key=s.key)
        for number, (first, last) in enumerate(s.stds, start=1)
    }
    first = found["case 1"]
    return {
        **found,
        BALANCED: theory.balanced_two_layer(problem, first["W1"] @ first["W2"], s.width),
    }


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    net = TwoLayer(s.d, 1, s.width)
    problem = data(s)
    begin = starts(s)
    save_at = np.unique(np.linspace(0, s.steps, SAVES).astype(int))

    def build(case: str) -> Setup:
        until = Until(steps=s.steps)
        record = {"loss": observe.loss}
        return Setup(problem, net, begin[case], Descent(s.lr), until, record, save_at)

    loss = lab.sweep(build, {"case": list(begin)})["loss"]
    time = save_at * s.lr
    certificates = {case: theory.certificate(problem, params) for case, params in begin.items()}
    bound = [theory.rate_bound(problem, params, time) for params in begin.values()]
    return xr.Dataset(
        {
            "loss": loss.rename(step="save").drop_vars(["time", "save"], errors="ignore"),
            "bound": (("case", "save"), bound),
            "closed": ("save", _closed(problem, begin[BALANCED], time)),
            "level": ("case", [one.c for one in certificates.values()]),
            "rate": ("case", [one.kA for one in certificates.values()]),
            "certified": ("case", [float(one.kB(0.0)) for one in certificates.values()]),
        },
        {"case": list(begin), "flow_time": ("save", time)},
    )


def _closed(problem: Regression, params: dict[str, np.ndarray], time: np.ndarray) -> np.ndarray:
    """The loss of the balanced net, in closed form."""
    path = theory.balanced_whitened(problem, params["W1"] @ params["W2"], time)
    return np.asarray([float(problem.loss(theta)) for theta in path])


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    steps = data["flow_time"].values / s.paper_lr
    for number, case in enumerate(data["case"].values):
        one = data.sel(case=case)
        colour = COLOURS[number]
        label = f"{case}, c = {float(one['level']):.1f}"
        every = {"marker": MARKS[number], "markevery": (5 * number, 25)}
        ax.plot(steps, one["loss"], color=colour, label=label, **every)
        if case != BALANCED:
            ax.plot(steps, one["bound"], "--", color=BLACK, lw=0.9)
    ax.plot([], [], "--", color=BLACK, lw=0.9, label="bound, Theorem 1")
    ax.plot(steps, data["closed"], ":", color=BLACK, label="closed form", zorder=3)
    words = f"steps of {s.paper_lr:g}"
    ax.set(
        yscale="log",
        xlabel=words,
        ylabel=r"loss $\frac{1}{n}\|Y - XUV^\top\|^2$",
        ylim=(s.floor, None),
    )
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center")


def late_rate(data: xr.Dataset, case: str, s: Settings) -> float:
    """The rate at which the loss falls at last, over the one that Theorem 1 guarantees."""
    one = data.sel(case=case)
    time = data["flow_time"].values
    loss = one["loss"].values
    late = (loss > s.floor) & (loss < s.late)
    fitted = -np.polyfit(time[late], np.log(loss[late]), 1)[0]
    return float(fitted / (2 * one["rate"]))


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    cases = [str(case) for case in data["case"].values if case != BALANCED]
    shown = (data["loss"] > s.floor) & (data["save"] > 0)  # at the start they are equal
    over = (data["loss"] / data["bound"]).where(shown).sel(case=cases)
    loose = np.log((data["bound"] / data["loss"]).where(shown).sel(case="case 3"))
    closed = np.abs(data["loss"].sel(case=BALANCED) / data["closed"] - 1)
    early = data["loss"].isel(save=s.early)
    order = [np.log(early.sel(case=c).item()) for c in (BALANCED, "case 1", "case 3", "case 2")]
    words = "order of speed 2, 3, 1, balanced: least logarithm of a ratio of losses"
    return [
        Check("loss over Theorem 1's bound, largest", float(over.max()), high=1.0),
        Check("case 3: logarithm of bound over loss, largest", float(loose.max()), high=1.5),
        Check("case 3: rate at last over the guaranteed one", late_rate(data, "case 3", s), 1, 1.1),
        Check("case 2: rate at last over the guaranteed one", late_rate(data, "case 2", s), 1, 1.2),
        Check(words, float(-np.diff(order).max()), low=0.5),
        Check("balanced case against its closed form, relative", float(closed.max()), high=0.01),
    ]


FIGURE_2 = Figure(
    id="imbalance.2",
    title="Imbalance sets the speed of two-layer nets",
    caption=(
        "Four starts with one and the same predictor: Gaussian layers of standard deviations (.1, "
        ".1), (.5, .02) and (.05, .2), and a balanced one. Theorem 1 bounds the loss from the "
        r"imbalance level $c$ of the start alone (dashed): $L(t) \le e^{-2ct}L(0)$ for data with "
        "unit singular values, $t$ being $2/n$ times step times learning rate. No run breaks it; "
        "it is nearly tight in case 3 all along, in case 2 in the slope. It says nothing about "
        "the balanced case, the slowest, whose path is known in closed form (dotted) and agrees. "
        "In the quick run GD takes a tenth of the steps, ten times as long; the axis counts the "
        "paper's."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        **SIZES,
        "width": 500,
        "stds": ((0.1, 0.1), (0.5, 0.02), (0.05, 0.2)),
        "paper_lr": 5e-4,
        "lr": 5e-3,
        "steps": 10_000,
        "floor": 1e-12,
        "late": 1e-8,
        "early": 10,  # the save at which speeds are compared
    },
    full={"lr": 5e-4, "steps": 100_000},
    default=True,
    wide=True,
)
