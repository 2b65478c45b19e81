"""Figures 5(a), 5(b): where GD and SGD end on rank-1 nets, over the scale of the start."""

from typing import Any

import numpy as np
import xarray as xr

from ... import observe, theory
from ..._engine.setup import Setup
from ...plot import BLACK, GREY, sweep
from .._figure import Axes, Canvas, Check, Figure, Settings
from .._lab import Lab
from . import _common as common
from ._common import FACTORS, LINES, LOOKS, METHODS

RUNS = ("optimiser", "scale", "seed")
QUICK: dict[str, Any] = {
    **common.SIZES,
    "steps": 20_000,
    "scales": (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    "seeds": 5,
    "small": 2.0,  # the largest scale at which first order in lr is asked to be enough
}


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    net = common.rank1(s)
    record = {"loss": observe.loss, "theta": observe.theta, "gap": observe.gap}

    def build(optimiser: str, scale: float, seed: int) -> Setup:
        params = common.balanced(s, net, scale, seed)
        draw = s.scales.index(scale)
        return common.setup(s, net, params, optimiser, seed, draw, record=record)

    done = lab.sweep(build, dict(zip(RUNS, (METHODS, s.scales, range(s.seeds)), strict=True)))
    known = by_gap(s, done["gap_end"].values[..., 0], FACTORS)
    return read(s, done, FACTORS).assign(by_gap=(RUNS, known))


def read(s: Settings, done: xr.Dataset, depth: int) -> xr.Dataset:
    """Distances at the end of every run, and what theory says of them."""
    shape = (len(METHODS), len(s.scales), s.seeds)
    told = common.grid(
        shape, lambda m, i, seed: common.told(s, METHODS[m], s.scales[i], seed, depth)
    )
    flow = common.grid(shape[1:], lambda i, seed: common.flow_end(s, s.scales[i], seed, depth))
    found: dict[str, Any] = {"loss": (RUNS, done["loss_end"].values), "floor": ("seed", _floor(s))}
    for name, theta in {"": done["theta_end"].values, "told_": told, "flow_": flow}.items():
        axes = RUNS[-theta.ndim + 1 :]
        least, true = common.distances(s, theta)
        found |= {f"{name}distance": (axes, least), f"{name}to_truth": (axes, true)}
    return xr.Dataset(found, {"optimiser": list(METHODS), "scale": list(s.scales)})


def _floor(s: Settings) -> list[float]:
    """How far the solution of least norm is from the truth."""
    data = common.data
    truth = common.truth
    gaps = [np.ravel(data(s, seed).min_norm) - truth(s, seed) for seed in range(s.seeds)]
    return [float(np.linalg.norm(gap)) for gap in gaps]


def by_gap(s: Settings, gaps: np.ndarray, depth: int) -> np.ndarray:
    """The distance that follows from the gap at the end, which is all that it depends on."""

    def one(method: int, i: int, seed: int) -> float:
        theta0 = common.start(s, s.scales[i], seed)
        gap = gaps[method, i, seed]
        return theory.balanced_limit(common.data(s, seed), theta0, depth, gap).distance

    return common.grid(gaps.shape, one)[..., 0]


def _draw(figure: Canvas, data: xr.Dataset, y: str, label: str) -> Axes:
    """Simulation as markers, theory as black lines; returns the Axes."""
    ax = figure.subplots()
    for method in METHODS:
        one = data.sel(optimiser=method)
        line = {"color": BLACK, "ls": LINES[method], "lw": 0.9}
        sweep(one, y=y, ax=ax, label=f"{method}, simulated", **LOOKS[method])
        ax.plot(data["scale"], one[f"told_{y}"].mean("seed"), label=f"{method}, theory", **line)
    flow = data[f"flow_{y}"].mean("seed")
    ax.plot(data["scale"], flow, ":", color=BLACK, label="gradient flow, theory")
    ax.set(xscale="log", xlabel=common.SCALE, ylabel=label)
    return ax


def draw_a(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = _draw(figure, data, "distance", common.LEAST)
    cross = {"marker": "x", "color": BLACK, "ls": "none", "zorder": 5}
    for method in METHODS:
        ax.plot(data["scale"], data["by_gap"].sel(optimiser=method).mean("seed"), **cross)
    ax.plot([], [], label=r"from the final gap $\delta_\infty$", **cross)
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left")


def draw_b(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = _draw(figure, data, "to_truth", common.TRUE)
    floor = float(data["floor"].mean())
    ax.axhline(floor, color=GREY, lw=0.8, zorder=0)
    where: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    words = r"$D(\theta^*_{\ell_2},\theta^*)$"
    ax.annotate(words, (1, floor), (0, -10), color=GREY, ha="right", **where)
    ax.set_ylim(bottom=floor - 0.7)
    ax.legend(loc="upper left")


def seen_theory(data: xr.Dataset, s: Settings, y: str = "distance") -> list[Check]:
    """GD against theory to first order in lr, at small scales."""
    gd = data.sel(scale=data["scale"] <= s.small).sel(optimiser="GD")
    error = np.abs(gd[y] / gd[f"told_{y}"] - 1).max()
    return [Check(f"GD against theory at scale ≤ {s.small:g}, relative", float(error), high=1e-3)]


def seen_growth(data: xr.Dataset, y: str) -> Check:
    """GD's end moves off as the scale grows."""
    mean = data[y].sel(optimiser="GD").mean("seed").values
    words = "least growth of GD's D from one scale to the next, a factor"
    return Check(words, float((mean[1:] / mean[:-1]).min()), low=1.0)


def _noise_effect(data: xr.Dataset, s: Settings) -> xr.DataArray:
    """By how much SGD ends nearer than the flow: predicted over measured, mean over data sets."""
    small = data.sel(scale=data["scale"] <= s.small)
    sgd = small.sel(optimiser="SGD")
    flow = small["flow_distance"].mean("seed")
    return (flow - sgd["told_distance"].mean("seed")) / (flow - sgd["distance"].mean("seed"))


def seen_a(data: xr.Dataset, s: Settings) -> list[Check]:
    fitted = data["loss"] < common.FITTED
    exact = abs(data["by_gap"] / data["distance"] - 1).where(fitted).max()
    nearer = data["distance"].sel(optimiser="SGD") < data["distance"].sel(optimiser="GD")
    return [
        Check("share of runs that fit the data", float(fitted.mean()), low=0.9),
        Check("D from the final gap alone, worst relative error", float(exact), high=1e-6),
        Check("share of starts from which SGD ends nearer than GD", float(nearer.mean()), low=1.0),
        seen_growth(data, "distance"),
        *seen_theory(data, s),
        *common.between("effect of noise, theory / measured", _noise_effect(data, s), 0.75, 1.1),
    ]


def seen_b(data: xr.Dataset, s: Settings) -> list[Check]:
    mean = data["to_truth"].mean("seed")
    change = mean.sel(optimiser="SGD") - mean.sel(optimiser="GD")
    return [
        Check("SGD minus GD, mean over data sets, largest", float(change.max()), high=0.0),
        seen_growth(data, "to_truth"),
        *seen_theory(data, s, "to_truth"),
    ]


FIGURE_5A = Figure(
    id="rank1.5a",
    title="Rank-1 nets: distance to the least-norm solution",
    caption=(
        "Rank-1 nets of three layers, balanced, started in one direction at growing scales; means "
        "and standard errors over data sets. Gradient flow ends at the root of one scalar "
        r"equation (dotted): the larger the start, the farther from $\theta^*_{\ell_2}$. A step "
        r"and minibatches open a gap $\delta = \|v_1\|^2 - \|u_k\|^2$, and $D$ falls with it: SGD "
        r"ends nearer than GD in every run. Crosses: $D$ from the measured $\delta_\infty$ alone, "
        r"exact at every scale. Black lines predict $\delta_\infty$ too, without a run, to first "
        "order in the learning rate: right for GD, nine tenths of the effect of noise for SGD at "
        "scales up to 2, too little from 8 on."
    ),
    compute=compute,
    draw=draw_a,
    seen=seen_a,
    quick=QUICK,
    default=True,
)

FIGURE_5B = Figure(
    id="rank1.5b",
    title="Rank-1 nets: distance to the truth",
    caption=(
        r"The runs of Figure 5(a), measured from the predictor $\theta^*$ that made the labels. "
        r"Data do not see where $\theta^*$ leaves their span, so no end point is expected below "
        r"the grey line, where $\theta^*_{\ell_2}$ lies. What the start adds outside the span is "
        "unrelated to the truth, and the distance grows with the scale. SGD, which forgets more "
        "of the start, is nearer than GD in the mean at every scale; in a single run at scale "
        "0.01 the order can be the other way round. Theory (black, no run needed, to first order "
        "in the learning rate) agrees with GD to better than a part in a thousand at scales up to "
        "2."
    ),
    compute=compute,
    draw=draw_b,
    seen=seen_b,
    quick=QUICK,
)
