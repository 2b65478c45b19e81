"""Figures 5(c), 5(d), 6(b): the same on standard linear nets of four layers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ... import init, observe
from ..._engine.setup import Setup
from ...nets import Deep, Net
from ...numerics.types import PyTree
from ...plot import GREY
from ...problems import Problem
from .._figure import Axes, Canvas, Check, Figure, Settings
from .._lab import Lab
from . import _common as common
from . import _ends as ends
from . import _paths as paths
from ._common import METHODS

LAYERS = 4


def net(s: Settings, width: int) -> Deep:
    """Four layers, one output."""
    return Deep((s.d, *(width,) * (LAYERS - 1), 1))


def gap(problem: Problem, net: Net, params: PyTree) -> jax.Array:
    """δ: by how much the first layer's square exceeds the second's."""
    return jnp.sum(params["W1"] ** 2) - jnp.sum(params["W2"] ** 2)


def gaussian(s: Settings, scale: float, seed: int = 0) -> dict[str, np.ndarray]:
    """Independent entries, all layers by one factor so that ‖θ(0)‖ is the scale."""
    layers = init.gaussian(net(s, s.gaussian_width), 0.1, key=common.number(s, seed))
    product = np.linalg.multi_dot(list(layers.values()))
    factor = (scale / np.linalg.norm(product)) ** (1 / LAYERS)
    return {name: factor * layer for name, layer in layers.items()}


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    """Balanced starts, and Gaussian ones at fewer scales."""
    return compute_balanced(s, lab).assign(compute_gaussian(s, lab).data_vars)


def compute_gaussian(s: Settings, lab: Lab) -> xr.Dataset:
    """Where GD and SGD end from Gaussian layers: (optimiser, wide_scale, seed)."""
    wide = net(s, s.gaussian_width)
    record = {"loss": observe.loss, "theta": observe.theta}

    def build(optimiser: str, wide_scale: float, seed: int) -> Setup:
        params = gaussian(s, wide_scale, seed)
        draw = len(s.scales) + s.gaussian_scales.index(wide_scale)
        return common.setup(s, wide, params, optimiser, seed, draw, record=record)

    over = {"optimiser": METHODS, "wide_scale": s.gaussian_scales, "seed": range(s.seeds)}
    done = lab.sweep(build, over)
    axes = ("optimiser", "wide_scale", "seed")
    least, true = common.distances(s, done["theta_end"].values)
    found = {"wide_distance": (axes, least), "wide_to_truth": (axes, true)}
    return xr.Dataset(found, {"wide_scale": list(s.gaussian_scales)})


def compute_balanced(s: Settings, lab: Lab) -> xr.Dataset:
    """Where GD and SGD end from balanced starts, and what theory says of it."""
    record = {"loss": observe.loss, "theta": observe.theta, "gap": gap}
    deep = net(s, s.width)

    def build(optimiser: str, scale: float, seed: int) -> Setup:
        params = common.balanced(s, deep, scale, seed)
        draw = s.scales.index(scale)
        return common.setup(s, deep, params, optimiser, seed, draw, record=record)

    over = {"optimiser": METHODS, "scale": s.scales, "seed": range(s.seeds)}
    done = lab.sweep(build, over)
    known = ends.by_gap(s, done["gap_end"].values, LAYERS)
    return ends.read(s, done, LAYERS).assign(by_gap=(ends.RUNS, known))


def draw_a(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ends.draw_a(figure, data, s)
    _draw_gaussian(figure.axes[0], data, "wide_distance")


def draw_b(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ends.draw_b(figure, data, s)
    _draw_gaussian(figure.axes[0], data, "wide_to_truth")


def _draw_gaussian(ax: Axes, data: xr.Dataset, y: str) -> None:
    """Means over the seeds, in grey: no theory goes with them."""
    marks: dict[str, dict[str, Any]] = {
        "GD": {"marker": "^"},
        "SGD": {"marker": "v", "mfc": "none"},
    }
    for method in METHODS:
        values = data[y].sel(optimiser=method).mean("seed")
        look: dict[str, Any] = {"color": GREY, "ls": "none", **marks[method]}
        ax.plot(data["wide_scale"], values, label=f"{method}, Gaussian start", **look)
    ax.legend(loc="upper left", fontsize="small")


def seen_gaussian(data: xr.Dataset, s: Settings) -> list[Check]:
    """SGD against GD from Gaussian layers: at scales from 0.5 on, and below."""
    ratio = data["wide_distance"].mean("seed")
    ratio = ratio.sel(optimiser="SGD") / ratio.sel(optimiser="GD")
    large = ratio.sel(wide_scale=ratio["wide_scale"] >= LARGE)
    small = ratio.sel(wide_scale=ratio["wide_scale"] < LARGE)
    words = "Gaussian start: mean D of SGD over that of GD"
    return [
        Check(f"{words}, scale ≥ {LARGE:g}, largest", float(large.max()), high=1.0),
        Check(f"{words}, scale < {LARGE:g}", float(small.max()), 0.9, 1.02),
    ]


def seen_a(data: xr.Dataset, s: Settings) -> list[Check]:
    return [*ends.seen_a(data, s), *seen_gaussian(data, s)]


def seen_b(data: xr.Dataset, s: Settings) -> list[Check]:
    true = data["wide_to_truth"].mean("seed").sel(wide_scale=data["wide_scale"] >= LARGE)
    change = true.sel(optimiser="SGD") - true.sel(optimiser="GD")
    words = f"Gaussian start, scale ≥ {LARGE:g}: SGD minus GD, mean, largest"
    return [*ends.seen_b(data, s), Check(words, float(change.max()), high=0.0)]


LARGE = 0.5  # scale of a Gaussian start from which on SGD is nearer
QUICK: dict[str, Any] = {
    **common.SIZES,
    "steps": 20_000,
    "gaussian_width": 20,
    "gaussian_scales": (0.1, 0.5, 2.0, 8.0),
    "scales": (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    "seeds": 5,
    "small": 2.0,
    "width": 1,  # the predictor of a balanced net does not depend on it
}

FIGURE_5C = Figure(
    id="rank1.5c",
    title="Four-layer nets: distance to the least-norm solution",
    caption=(
        "As Figure 5(a), for standard linear nets of four layers from balanced starts (their path "
        "does not depend on the width). One scalar equation, now with four factors instead of "
        "five, predicts the end of gradient flow (dotted); crosses are $D$ from the gap "
        r"$\delta_\infty = \|W_1\|_F^2 - \|W_2\|_F^2$ that was measured at the end, and agree to "
        "rounding; black lines need no run, to first order in the learning rate. SGD ends nearer "
        r"to $\theta^*_{\ell_2}$ than GD from every balanced start, as the paper says. Grey "
        "triangles: Gaussian layers, which no theorem here covers; there SGD ends nearer in the "
        "mean at scales from 0.5, and at 0.1 the two are within two per cent of each other."
    ),
    compute=compute,
    draw=draw_a,
    seen=seen_a,
    quick=QUICK,
    full={"width": 100, "gaussian_width": 100},
    default=True,
)

FIGURE_5D = Figure(
    id="rank1.5d",
    title="Four-layer nets: distance to the truth",
    caption=(
        r"The runs of Figure 5(c), measured from the predictor $\theta^*$ that made the labels. "
        r"The grey line is the distance of $\theta^*_{\ell_2}$ itself: 40 samples of 100 features "
        "leave 60 directions open, and nothing in the start points to the truth there. So the "
        "distance grows with the scale of the start, and SGD, which ends with less of the start, "
        "is nearer than GD in the mean over data sets at every scale, from Gaussian layers (grey) "
        "at scales from 0.5. Black lines are theory "
        "without a run, to first order in the learning rate; GD agrees with it to better than a "
        "part in a thousand at scales up to 2."
    ),
    compute=compute,
    draw=draw_b,
    seen=seen_b,
    quick=QUICK,
    full={"width": 100, "gaussian_width": 100},
)


def compute_paths(s: Settings, lab: Lab) -> xr.Dataset:
    deep = net(s, s.width)
    wide = net(s, s.gaussian_width)

    def balanced(optimiser: str, scale: float, draw: int) -> Setup:
        noise = s.draws * s.scales.index(scale) + draw
        return paths.along(s, deep, common.balanced(s, deep, scale), optimiser, noise)

    def random(optimiser: str, scale: float, draw: int) -> Setup:
        noise = s.draws * (len(s.scales) + s.scales.index(scale)) + draw
        return paths.along(s, wide, gaussian(s, scale), optimiser, noise)

    told = paths.told(s, paths.trained(s, lab, balanced), LAYERS)
    drawn = paths.trained(s, lab, random)
    return told.assign({f"gaussian_{name}": drawn[name] for name in drawn.data_vars})


def draw_paths(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    paths.theory_and_curves(left, data, s)
    random = data[["gaussian_gd", "gaussian_sgd"]]
    random = random.rename(gaussian_gd="gd", gaussian_sgd="sgd")
    paths.curves(right, random, "scale", [f"{scale:g}" for scale in s.scales])
    left.set(title="balanced start", ylim=(0, 1.2 * max(s.scales)))
    right.set(title="Gaussian start", ylabel="")
    figure.legend(*left.get_legend_handles_labels(), loc="outside right center")


def seen_paths(data: xr.Dataset, s: Settings) -> list[Check]:
    last = data.isel(step=-1)
    ratio = last["gaussian_sgd"].mean("draw") / last["gaussian_gd"]
    words = "Gaussian start: mean end of SGD over that of GD, largest"
    return [*paths.seen(data, s), Check(words, float(ratio.max()), high=1.0)]


FIGURE_6B = Figure(
    id="rank1.6b",
    title="Four-layer nets: distance along training",
    caption=(
        r"Distance to $\theta^*_{\ell_2}$ along training on one data set; $\|\theta(0)\|$ in "
        "brackets, SGD as median and middle half of its draws. Left, balanced: GD follows "
        "gradient flow (dotted, from its equation for the predictor alone), and both ends are "
        "predicted without a run (rings, to first order in the learning rate). Right, Gaussian "
        "layers: no limit is known, yet SGD ends nearer in the mean at scales from 0.5. That it "
        "does so at all scales, as we read the paper, holds for balanced starts; for Gaussian "
        "ones at 0.1 see Figure 5(c): there the two ends are nearly the same."
    ),
    compute=compute_paths,
    draw=draw_paths,
    seen=seen_paths,
    quick={
        **common.SIZES,
        "steps": 4000,
        "scales": (0.5, 2.0, 8.0),
        "draws": 4,
        "small": 2.0,
        "width": 1,
        "gaussian_width": 20,
    },
    full={"steps": 20_000, "width": 100, "gaussian_width": 100},
    wide=True,
)
