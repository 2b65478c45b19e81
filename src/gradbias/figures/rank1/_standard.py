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
from ...problems import Problem
from .._figure import Canvas, Check, Figure, Settings
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


def gaussian(s: Settings, scale: float) -> dict[str, np.ndarray]:
    """Independent entries, all layers by one factor so that ‖θ(0)‖ is the scale."""
    layers = init.gaussian(net(s, s.gaussian_width), 0.1, key=common.number(s, 0))
    product = np.linalg.multi_dot(list(layers.values()))
    factor = (scale / np.linalg.norm(product)) ** (1 / LAYERS)
    return {name: factor * layer for name, layer in layers.items()}


def compute(s: Settings, lab: Lab) -> xr.Dataset:
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


QUICK: dict[str, Any] = {
    **common.SIZES,
    "steps": 20_000,
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
        r"to $\theta^*_{\ell_2}$ than GD from every start, as the paper says. For Gaussian starts, "
        "which no theorem here covers, see Figure 6(b): there it holds in the mean."
    ),
    compute=compute,
    draw=ends.draw_a,
    seen=ends.seen_a,
    quick=QUICK,
    full={"width": 100},
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
        "is nearer than GD in the mean over data sets at every scale. Black lines are theory "
        "without a run, to first order in the learning rate; GD agrees with it to better than a "
        "part in a thousand at scales up to 2."
    ),
    compute=compute,
    draw=ends.draw_b,
    seen=ends.seen_b,
    quick=QUICK,
    full={"width": 100},
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
        "does so at all scales, as we read the paper, holds for balanced starts; from Gaussian "
        "ones at 0.1 and below single runs of SGD were measured to end slightly farther than GD."
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
