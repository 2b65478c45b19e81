"""Figure 6(c): the test error of ReLU nets along training, over the scale of the start."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ... import init, observe
from ..._engine.setup import Setup, Until
from ...nets import MLP, Net
from ...numerics.host_rng import generator
from ...numerics.types import PyTree
from ...plot import BLACK, COLOURS
from ...problems import Problem
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from . import _common as common
from ._common import LINES, METHODS

SAVES = 60
HIDDEN = 3


def net(s: Settings) -> MLP:
    """Four layers without biases."""
    return MLP((s.d, *(s.width,) * HIDDEN, 1), bias=False)


def start(s: Settings, scale: float, member: int) -> dict[str, np.ndarray]:
    """He's start, multiplied; `scale` is a norm in units of the expected norm of He's."""
    params = init.kaiming(net(s), key=common.number(s, member))
    norm = np.sqrt(sum(float(np.sum(p * p)) for p in params.values()))
    return {name: scale * he_norm(s) / norm * p for name, p in params.items()}


def he_norm(s: Settings) -> float:
    """The root mean square norm of all of He's weights: each unit has 2 of its square."""
    return float(np.sqrt(2 * (HIDDEN * s.width + 1)))


def fresh(s: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Samples that no net is trained on."""
    X = generator(s.key, "figures.rank1.test set").standard_normal((s.tests, s.d))
    return X, X @ common.truth(s)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    X, y = fresh(s)

    def test_error(problem: Problem, net: Net, params: PyTree) -> jax.Array:
        return jnp.mean((net(params, jnp.asarray(X))[:, 0] - jnp.asarray(y)) ** 2)

    def build(optimiser: str, scale: float, member: int) -> Setup:
        more = {
            "record": {"loss": observe.loss, "test": test_error},
            "until": Until(steps=s.steps),
            "save_at": common.save_steps(s, SAVES),
        }
        noise = s.members * s.scales.index(scale) + member
        params = start(s, scale, member)
        return common.setup(s, net(s), params, optimiser, draw=noise, **more)

    over = {"optimiser": METHODS, "scale": s.scales, "member": range(s.members)}
    done = lab.sweep(build, over)
    return xr.Dataset(
        {
            "test": done["test"],
            "loss": done["loss"].isel(step=-1, drop=True),
            "norm": ("scale", [scale * he_norm(s) for scale in s.scales]),
            "null": float(np.mean(y**2)),
        }
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    mean = data["test"].mean("member").isel(step=slice(1, None))
    for number, scale in enumerate(s.scales):
        look = {"color": COLOURS[number], **common.marked(number)}
        for method in METHODS:
            label = f"{method} ({float(data['norm'][number]):.1f})"
            fill: dict[str, Any] = {} if method == "GD" else {"mfc": "white"}
            one = mean.sel(optimiser=method, scale=scale)
            ax.plot(one["step"], one, LINES[method], label=label, **look, **fill)
    ax.axhline(float(data["null"]), color=BLACK, ls=":", label="predicting 0")
    ax.set(xscale="log", xlabel="step", ylabel="test error")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center")


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    mean = data["test"].isel(step=-1).mean("member")
    gd = mean.sel(optimiser="GD")
    ratio = mean.sel(optimiser="SGD") / mean.sel(optimiser="GD")
    return [
        Check("largest training loss at the end", float(data["loss"].max()), high=1e-2),
        Check("GD: least growth from a scale to the next", float(gd.diff("scale").min()), low=0.0),
        Check("SGD over GD at the largest scale", float(ratio[-1]), high=1.0),
        Check("SGD over GD at the least scale", float(ratio[0]), low=0.97, high=1.03),
    ]


FIGURE_6C = Figure(
    id="rank1.6c",
    title="ReLU nets: test error along training",
    caption=(
        "ReLU nets of four layers, on the data of the linear nets; in brackets the norm of all "
        "weights at the start (0.41 to 1.39 times He's), means over starts. No theorem covers "
        "this. Measured: the test error grows with the scale of the start, as linear theory would "
        "suggest. SGD is better than GD, as the paper says, clearly at the largest scale only; at "
        "the least one they agree to a few per cent. Nothing generalises much: dotted is the "
        "error of predicting 0, and only small starts end below it. Quick runs have narrower "
        "hidden layers than the paper's 100, where the same was measured."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        **common.SIZES,
        "steps": 3000,
        "width": 30,
        "scales": (0.41, 0.65, 1.02, 1.39),
        "members": 4,
        "tests": 500,
    },
    full={"width": 100, "steps": 20_000},
    wide=True,
)
