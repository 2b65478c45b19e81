"""Figures 11 and 12: rank-1 nets that start out of balance."""

from typing import Any

import numpy as np
import xarray as xr

from ... import init, theory
from ..._engine.setup import Setup
from ...plot import BLACK, COLOURS
from .._figure import Axes, Canvas, Check, Figure, Settings
from .._lab import Lab
from . import _common as common
from . import _paths as paths
from ._common import LINES, MARKS, METHODS


def start(s: Settings, delta: float, scale: float, seed: int = 0) -> dict[str, np.ndarray]:
    """Pairs out of balance by Δ, and a predictor that is as long as the scale says."""
    net = common.rank1(s)
    return init.perturb(net, common.balanced(s, net, scale, seed), delta)


def flow_end(s: Settings, delta: float, scale: float, seed: int = 0) -> float:
    """Where gradient flow ends, balanced or not."""
    return theory.rank1_limit(common.data(s, seed), start(s, delta, scale, seed)).distance


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    net = common.rank1(s)
    # The scales of some Δ, then all Δ at one scale: a full grid would run what nobody draws.
    points = [(delta, scale) for delta in s.shown for scale in s.scales]
    points += [(delta, s.fixed) for delta in s.deltas]

    def build(optimiser: str, point: int, seed: int) -> Setup:
        params = start(s, *points[point], seed)
        return common.setup(s, net, params, optimiser, seed, point)

    over = {"optimiser": METHODS, "point": range(len(points)), "seed": range(s.seeds)}
    done = lab.sweep(build, over)
    ends, _ = common.distances(s, done["theta_end"].values)
    flow = common.grid(ends.shape[1:], lambda i, j: flow_end(s, points[i][0], points[i][1], j))
    runs = np.concatenate([ends, flow[None, ..., 0]])  # gradient flow as a third optimiser
    cut = len(s.shown) * len(s.scales)
    axes = ("optimiser", "shown", "scale", "seed")
    shape = (len(runs), len(s.shown), len(s.scales), s.seeds)
    return xr.Dataset(
        {
            "distance": (axes, runs[:, :cut].reshape(shape)),
            "fixed": (("optimiser", "delta", "seed"), runs[:, cut:]),
            "loss": float(done["loss_end"].max()),
        },
        {
            "optimiser": [*METHODS, "flow"],
            "shown": list(s.shown),
            "scale": list(s.scales),
            "delta": list(s.deltas),
        },
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    mean = data.mean("seed")
    for number, delta in enumerate(s.shown):
        _pair(left, mean["distance"].sel(shown=delta), number, f"Δ = {delta:g}")
    _pair(right, mean["fixed"], len(s.shown), "all Δ")
    left.plot([], [], ":", color=BLACK, label="gradient flow, theory")
    left.set(xscale="log", xlabel=common.SCALE, ylabel=common.LEAST, ylim=(0, None))
    right.set(xlabel="Δ, imbalance of the pairs", title=rf"$\|\theta(0)\|$ = {s.fixed:g}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside right center")


def _pair(ax: Axes, mean: xr.DataArray, number: int, label: str) -> None:
    """GD filled, SGD hollow, both over the theory of the flow."""
    ticks = mean[str(mean.dims[1])]
    for method in METHODS:
        look = {"color": COLOURS[number], "marker": MARKS[number], "ls": LINES[method]}
        fill: dict[str, Any] = {} if method == "GD" else {"mfc": "white"}
        values = mean.sel(optimiser=method)
        ax.plot(ticks, values, label=f"{method}, {label}", lw=0.8, **look, **fill)
    ax.plot(ticks, mean.sel(optimiser="flow"), ":", color=BLACK, zorder=3)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    small = data["distance"].sel(scale=data["scale"] <= s.small)
    panels = {"over scales": small, "over Δ": data["fixed"]}
    error = [np.abs(x.sel(optimiser="GD") / x.sel(optimiser="flow") - 1) for x in panels.values()]
    both = [data["distance"], data["fixed"]]
    nearer = [x.sel(optimiser="SGD") / x.sel(optimiser="GD") for x in both]
    rises = data["distance"].diff("scale").min()
    falls = data["fixed"].diff("delta").max()
    worst = float(max(x.max() for x in error))
    return [
        Check("largest loss at the end", float(data["loss"]), high=common.FITTED),
        Check("SGD over GD, largest of all runs", float(max(x.max() for x in nearer)), high=1.0),
        Check(f"GD against the flow at scale ≤ {s.small:g}, relative", worst, high=0.03),
        Check("least change of D as the scale grows", float(rises), low=0.0),
        Check("largest change of D as Δ grows at one scale", float(falls), high=0.0),
    ]


FIGURE_11 = Figure(
    id="rank1.11",
    title="Rank-1 nets out of balance: where they end",
    caption=(
        r"Pairs are put out of balance, $\Delta = \frac{1}{2L-1}\sum_k (\|v_{k+1}\|^2 - "
        r"\|u_k\|^2)/\|u_k\|^2$, and all parameters rescaled so that $\|\theta(0)\|$ stays; "
        "without that, Δ would only change the scale. Means over data sets. Gradient flow "
        "(dotted) is solvable here too: its charges fix a scalar equation for any start. GD keeps "
        "to it within 3 % at scales up to 2. As the paper says, SGD ends nearer than GD and D "
        "grows with the scale, whatever Δ. Right, at one scale: D falls as Δ grows, so that more "
        "imbalance of this sign brings nets nearer to the solution of least norm."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        **common.SIZES,
        "steps": 20_000,
        "scales": (0.1, 0.3, 0.8696, 2.0, 4.0),
        "shown": (0.0, 0.3, 1.2),
        "deltas": (-0.2, 0.0, 0.1, 0.3, 0.6, 1.2),
        "fixed": 0.8696,
        "seeds": 4,
        "small": 2.0,
    },
    wide=True,
)


def compute_paths(s: Settings, lab: Lab) -> xr.Dataset:
    net = common.rank1(s)

    def build(optimiser: str, delta: float, draw: int) -> Setup:
        noise = s.draws * s.deltas.index(delta) + draw
        return paths.along(s, net, start(s, delta, s.fixed), optimiser, noise)

    data = paths.trained(s, lab, build, {"delta": s.deltas})
    return data.assign(flow=("delta", [flow_end(s, delta, s.fixed) for delta in s.deltas]))


def draw_paths(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    paths.curves(ax, data, "delta", [f"Δ = {delta:g}" for delta in s.deltas])
    last = [s.steps] * len(s.deltas)
    ax.plot(last, data["flow"], "o", label="end of the flow, theory", **paths.RING)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center")


def seen_paths(data: xr.Dataset, s: Settings) -> list[Check]:
    last = data.isel(step=-1)
    nearer = (last["sgd"].max("draw") / last["gd"]).max()
    error = np.abs(last["gd"] / data["flow"] - 1).max()
    return [
        Check("SGD over GD at the end, largest of all draws", float(nearer), high=1.0),
        Check("GD against the flow at the end, relative", float(error), high=0.02),
        Check("largest change of D as Δ grows", float(last["gd"].diff("delta").max()), high=0.0),
    ]


FIGURE_12 = Figure(
    id="rank1.12",
    title="Rank-1 nets out of balance: along training",
    caption=(
        r"Distance to $\theta^*_{\ell_2}$ along training from $\|\theta(0)\| = 0.8696$ on one data "
        "set, for four imbalances Δ of the pairs (in brackets); SGD as median and middle half of "
        "its draws. Rings: the end of gradient flow, predicted from the charges of the start "
        "without a run; GD ends within 2 % of it, the rest being the effect of its finite step. "
        "As the paper says, nothing changes in kind without balance: SGD ends nearer than GD in "
        "every draw. In degree it does: the larger Δ, the faster the net learns and the nearer it "
        "ends; theory predicts the latter."
    ),
    compute=compute_paths,
    draw=draw_paths,
    seen=seen_paths,
    quick={
        **common.SIZES,
        "steps": 20_000,
        "deltas": (-0.2, 0.0, 0.3, 1.2),
        "fixed": 0.8696,
        "draws": 4,
    },
    wide=True,
)
