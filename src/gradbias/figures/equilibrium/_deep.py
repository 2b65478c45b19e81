"""Figure 5: in a deep linear net all layers but the first and the last end with one norm."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Deep
from ...noise import Minibatch
from ...numerics.types import PyTree
from ...plot import BLACK, COLOURS
from ...problems import Problem
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._deep_data import as_population, images, population, start, told

STARTS = ("same", "random")
TASKS = {"population": "fresh samples, 12 inputs", "digits": "handwritten digits"}
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def norms(problem: Problem, net: Deep, params: PyTree) -> jax.Array:
    """‖W_i‖², the first layer first."""
    return jnp.stack([jnp.sum(W * W) for W in net.factors(params)])


def runs(
    lab: Lab, s: Settings, task: str, starts: tuple[str, ...], noise: bool
) -> tuple[tuple[str, str, str], np.ndarray]:
    """‖W_i‖² of all layers, along SGD or gradient descent."""
    problem = population(s) if task == "population" else images(s)
    lr, batch, steps, size = s[task]
    net = Deep([problem.d, *[problem.k] * (s.depth - 1), problem.k])
    saves = np.linspace(0, steps, s.saves).astype(int)

    def build(begin: str) -> Setup:
        params = start(net, begin, size, s.key)
        key = 2 * s.key + starts.index(begin)  # no two runs share their noise
        moves = Descent(lr, Minibatch(batch) if noise else None)
        return Setup(problem, net, params, moves, Until(steps=steps), {"n": norms}, saves, key=key)

    found = lab.sweep(build, {"begin": starts})["n"]
    return (("begin" if noise else "one", "step", "layer"), found.values)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    found: dict[str, Any] = {}
    for task in TASKS:
        found[task] = runs(lab, s, task, STARTS, True)
    found["descent"] = runs(lab, s, "population", ("random",), False)
    found["told_population"] = ("layer", told(population(s), s.depth))
    found["told_digits"] = ("layer", told(as_population(images(s)), s.depth))
    return xr.Dataset(found, {"begin": list(STARTS), "layer": np.arange(1, s.depth + 1)})


def drawn(begin: str) -> Callable[[Canvas, xr.Dataset, Settings], None]:
    """The picture from one of the two starts."""

    def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
        for ax, (task, title) in zip(figure.subplots(1, 2), TASKS.items(), strict=True):
            steps = np.linspace(0, s[task][2], s.saves) / 1000
            for number in range(s.depth):
                values = data[task].sel(begin=begin).isel(layer=number)
                line = {"color": COLOURS[number], "ls": LINES[number]}
                ax.plot(steps, values, label=f"layer {number + 1}", **line)
            for level in data[f"told_{task}"].values[[0, 1, -1]]:
                ax.plot(steps[[-1]] * 1.05, level, "o", color=BLACK, mfc="none", clip_on=False)
            ax.set(title=title, xlabel="step / 1000", ylim=(0, None))
        figure.axes[0].set_ylabel(r"$\|W_i\|^2$")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        handles += figure.axes[0].plot([], [], "o", color=BLACK, mfc="none")
        figure.legend(handles, [*labels, "equilibrium"], loc="outside lower center", ncols=6)

    return draw


def late(data: xr.DataArray) -> xr.DataArray:
    """The mean over the last third."""
    return data.isel(step=slice(2 * data.sizes["step"] // 3, None)).mean("step")


def spread(norms_: xr.DataArray) -> float:
    """How far the squared norms of the layers between first and last are apart, relative."""
    middle = norms_.isel(layer=slice(1, -1)).values
    return float((middle.max() - middle.min()) / middle.mean())


def seen_of(begin: str) -> Callable[[xr.Dataset, Settings], list[Check]]:
    """What must be seen from one of the two starts."""

    def seen(data: xr.Dataset, s: Settings) -> list[Check]:
        found = []
        for task, most in {"population": 0.1, "digits": 0.15}.items():
            ends = late(data[task])
            here = ends.sel(begin=begin)
            other = ends.sel(begin=STARTS[1 - STARTS.index(begin)])
            error = float(abs(here / data[f"told_{task}"] - 1).max())
            apart = float(abs(here / other - 1).max())
            edge = here.isel(layer=[0, -1]).min() / here.isel(layer=slice(1, -1)).max()
            found += [
                Check(f"{task}: spread of the middle layers at the end", spread(here), high=0.04),
                Check(f"{task}: largest error of a predicted norm²", error, high=most),
                Check(f"{task}: first and last ÷ middle layers, least", float(edge), low=1.08),
                Check(f"{task}: difference to the ends of the other start", apart, high=0.05),
            ]
        if begin == "random":
            first = data["population"].sel(begin=begin).isel(step=0)
            kept = spread(data["descent"].isel(one=0, step=-1))
            found += [
                Check("spread of the middle layers at the start", spread(first), low=0.3),
                Check("spread of the middle layers after GD", kept, low=0.15),
            ]
        return found

    return seen


SIZES = {
    "d": 12,
    "k": 6,
    "depth": 5,
    "images": 1200,
    "components": 20,
    "saves": 61,
    # lr, batch, steps, squared norm of a layer at the start
    "population": (0.015, 12, 40_000, 6.0),
    "digits": (0.1, 6, 40_000, 4.0),
}
SAME = Figure(
    id="equilibrium.5a",
    title="Deep linear nets: middle layers keep one norm",
    caption=(
        "Squared norms of the five layers of a linear net under SGD, all equal at the start; left "
        "on fresh samples of a teacher, right on handwritten digits (20 principal coordinates, in "
        "place of MNIST). Theorem 5.4, with denominators corrected, gives the end (rings): one "
        "norm for all layers between first and last, others for these two, set by the noise of "
        "inputs and labels. Measured: so, up to the bias of a finite step; for digits the rings "
        "take residuals as independent of images, and are met to about ten per cent. Widths equal "
        "the teacher's rank: units that nothing uses would keep their norm for ever."
    ),
    compute=compute,
    draw=drawn("same"),
    seen=seen_of("same"),
    quick=SIZES,
    wide=True,
    height=0.85,
)
RANDOM = Figure(
    id="equilibrium.5b",
    title="Deep linear nets forget the norms of their start",
    caption=(
        "As panel a, from layers whose norms differ at random. The prediction (rings) does not "
        "know the start, and the norms at the end are those of panel a to within their "
        "fluctuations: layers between the first and the last meet, first and last go to norms of "
        "their own. Gradient descent without noise, from the same start, keeps the middle layers "
        "apart. Left fresh samples of a teacher, right handwritten digits with the prediction for "
        "residuals that do not depend on the images. The claim that the end does not depend on the "
        "start is for widths equal to the rank, as here."
    ),
    compute=compute,
    draw=drawn("random"),
    seen=seen_of("random"),
    quick=SIZES,
    wide=True,
    height=0.85,
)
