"""Figure 6(a): the distance to the solution of least norm along training, rank-1 nets."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from ... import observe
from ..._engine.setup import Setup, Until
from ...nets import Net
from ...numerics.types import PyTree
from ...plot import BLACK, COLOURS
from .._figure import Axes, Canvas, Check, Figure, Settings
from .._lab import Lab
from . import _common as common
from ._common import FACTORS, LINES, METHODS

SAVES = 120
RING: dict[str, Any] = {"mfc": "none", "mec": BLACK, "ls": "none", "clip_on": False, "zorder": 4}


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    return told(s, trained(s, lab, rank1_builder(s)), FACTORS)


def along(s: Settings, net: Net, params: PyTree, method: str, draw: int, **more: Any) -> Setup:
    """A run that keeps loss and distance on its way, to the last step."""
    record = {
        "loss": observe.loss,
        "distance": observe.distance_to(np.ravel(common.data(s).min_norm)),
        **more.pop("record", {}),
    }
    arguments = {"save_at": common.save_steps(s, SAVES), "until": Until(steps=s.steps), **more}
    return common.setup(s, net, params, method, draw=draw, record=record, **arguments)


def rank1_builder(s: Settings, **more: Any) -> Callable[[str, float, int], Setup]:
    """Balanced rank-1 nets by scale."""
    net = common.rank1(s)

    def build(optimiser: str, scale: float, draw: int) -> Setup:
        noise = s.draws * s.scales.index(scale) + draw
        return along(s, net, common.balanced(s, net, scale), optimiser, noise, **more)

    return build


def trained(
    s: Settings,
    lab: Lab,
    build: Callable[..., Setup],
    over: dict[str, Any] | None = None,
    extra: tuple[str, ...] = (),
) -> xr.Dataset:
    """GD once and SGD with several draws, side by side: "gd", "gd_loss", "sgd", "sgd_loss"."""
    points = {"scale": s.scales} if over is None else over
    found: dict[str, Any] = {}
    for method, draws in zip(METHODS, (1, s.draws), strict=True):
        runs = lab.sweep(build, {"optimiser": [method], **points, "draw": range(draws)})
        runs = runs.isel(optimiser=0, drop=True)
        runs = runs.isel(draw=0, drop=True) if method == "GD" else runs
        name = method.lower()
        found |= {name: runs["distance"], f"{name}_loss": runs["loss"].isel(step=-1, drop=True)}
        found |= {f"{name}_{more}": runs[more] for more in extra}
    return xr.Dataset(found)


def told(s: Settings, data: xr.Dataset, depth: int) -> xr.Dataset:
    """With the path of gradient flow, and the ends of GD and SGD to first order in lr."""
    least = np.ravel(common.data(s).min_norm)
    ends = {
        method: [common.told(s, method, scale, 0, depth) - least for scale in s.scales]
        for method in METHODS
    }
    named = {
        f"{method.lower()}_told": ("scale", np.linalg.norm(end, axis=1))
        for method, end in ends.items()
    }
    return data.assign(named).assign(flow=(("scale", "step"), flows(s, data, depth)))


def flows(s: Settings, data: xr.Dataset, depth: int) -> np.ndarray:
    """D along gradient flow at every scale."""
    steps = data["step"].values
    least = np.ravel(common.data(s).min_norm)
    found = [common.flow_path(s, common.start(s, scale), depth, steps) for scale in s.scales]
    return np.linalg.norm(np.stack(found) - least, axis=-1)


def curves(ax: Axes, data: xr.Dataset, axis: str, labels: list[str]) -> None:
    """GD as lines, SGD as dashed medians with the middle half of its draws."""
    steps = data["step"].values[1:]
    for number, label in enumerate(labels):
        one = data.isel({axis: number, "step": slice(1, None)})
        look = {"color": COLOURS[number], **common.marked(number)}
        ax.plot(steps, one["gd"], LINES["GD"], label=f"GD ({label})", **look)
        middle = one["sgd"].median("draw")
        ax.plot(steps, middle, LINES["SGD"], label=f"SGD ({label})", mfc="white", **look)
        low, high = (one["sgd"].quantile(q, "draw") for q in (0.25, 0.75))
        ax.fill_between(steps, low, high, color=COLOURS[number], alpha=0.2, lw=0)
    ax.set(xscale="log", xlabel="step", ylabel=r"$D(\theta(t),\,\theta^*_{\ell_2})$")


def theory_and_curves(ax: Axes, data: xr.Dataset, s: Settings) -> None:
    """Paths of simulation, and what theory says of path and end."""
    curves(ax, data, "scale", [f"{scale:g}" for scale in s.scales])
    flow = data["flow"].isel(step=slice(1, None))
    lines = ax.plot(flow["step"], flow.values.T, ":", color=BLACK, lw=0.9, zorder=3)
    lines[0].set_label("gradient flow, theory")
    small = data.sel(scale=data["scale"] <= s.small)
    last = [s.steps] * small.sizes["scale"]
    ax.plot(last, small["gd_told"], "o", label="end of GD, theory", **RING)
    ax.plot(last, small["sgd_told"], "s", label="end of SGD, theory", **RING)


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    theory_and_curves(ax, data, s)
    ax.set_ylim(0, 1.3 * float(data["flow"].isel(step=-1).max()))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center")


def nearer(data: xr.Dataset) -> Check:
    """SGD's typical end against GD's."""
    last = data.isel(step=-1)
    ratio = float((last["sgd"].median("draw") / last["gd"]).max())
    return Check("median end of SGD over that of GD, largest", ratio, high=1.0)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    small = data.sel(scale=data["scale"] <= s.small)
    last = small.isel(step=-1)
    path = np.abs(small["gd"] / small["flow"] - 1).max()
    end = np.abs(last["gd"] / last["gd_told"] - 1).max()
    effect = (last["flow"] - last["sgd_told"]) / (last["flow"] - last["sgd"].mean("draw"))
    return [
        nearer(data),
        Check(f"GD's path against the flow's, scale ≤ {s.small:g}", float(path), high=0.05),
        Check(f"end of GD against theory, scale ≤ {s.small:g}", float(end), high=1e-3),
        *common.between("effect of noise, theory / measured", effect, 0.75, 1.1),
    ]


QUICK: dict[str, Any] = {
    **common.SIZES,
    "steps": 20_000,
    "scales": (0.1, 0.8696, 4.0, 8.0),
    "draws": 8,
    "small": 4.0,  # the largest scale at which first order in lr is asked to be enough
}

FIGURE_6A = Figure(
    id="rank1.6a",
    title="Rank-1 nets: distance along training",
    caption=(
        r"Distance to $\theta^*_{\ell_2}$ along training of balanced rank-1 nets on one data set; "
        r"$\|\theta(0)\|$ in brackets, SGD as median and middle half of its draws. Dotted: "
        "gradient flow from its equation for the predictor alone, at time step × learning rate; "
        "GD keeps within a few per cent of it. Rings: the ends of GD and SGD by theory, without a "
        "run, to first order in the learning rate (at 8 that order is not enough for SGD). SGD "
        "ends nearer at every scale. The distance need not fall along the way: what counts is how "
        "much of the start is left at the end, not how the path gets there."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick=QUICK,
    wide=True,
)
