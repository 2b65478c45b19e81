"""Figure 2: a ReLU student of two teachers, from a small and from a large start."""

import numpy as np
import xarray as xr

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...init import gaussian
from ...nets import MLP
from ...plot import BLUE, GREEN, GREY, ORANGE, PURPLE
from ...problems import relu_teacher
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

RECORD = {"loss": observe.loss, "values": observe.singular_values("W1")}


def student(
    s: Settings,
    n: int,
    scale: float,
    seed: int,
    orthonormal: bool,
    signs: tuple[float, float] | None = None,
) -> Setup:
    """Gradient descent on the labels of two neurons, data and start of this seed."""
    key = 1000 * s.key + seed
    weights = s.signs if signs is None else signs
    data = relu_teacher(n, s.d, signs=weights, orthonormal=orthonormal, key=key)
    net = MLP((s.d, s.width, 1), "relu", bias=False)
    start = gaussian(net, scale, key=key)
    return Setup(data, net, start, Descent(s.lr), Until(steps=s.steps), RECORD, key=key)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    cases = {"small": (s.n, s.small), "large": (s.n, s.large), "few": (s.few, s.small)}
    found = {}
    steps = np.zeros(0)
    for name, (n, scale) in cases.items():

        def build(seed: int, n=n, scale=scale, name=name) -> Setup:
            return student(s, n, scale, seed, orthonormal=name != "few")

        runs = lab.sweep(build, {"seed": range(s.seeds)})
        found[name] = runs["values"].transpose("seed", "step", ...).values
        found[f"{name}_loss"] = runs["loss"].transpose("seed", "step").values
        steps = runs["step"].values
    dims = ("seed", "step", "value")
    return xr.Dataset({name: (dims[: v.ndim], v) for name, v in found.items()}, {"step": steps})


def third(data: xr.Dataset, name: str) -> np.ndarray:
    """σ₃/σ₂ of every seed at the end."""
    return data[name].values[:, -1, 2] / data[name].values[:, -1, 1]


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, middle, right = figure.subplots(1, 3)
    middle.sharey(left)
    steps = data["step"].values[1:] * s.lr
    for ax, name, scale in ((left, "small", s.small), (middle, "large", s.large)):
        typical = np.argsort(third(data, name))[s.seeds // 2]
        values = data[name].values[typical, 1:]
        lines = ax.plot(steps, values[:, :2], color=BLUE)
        lines += ax.plot(steps, values[:, 2:], "--", color=ORANGE)
        ax.set(xscale="log", yscale="log", xlabel="time", title=f"start of scale {scale:g}")
    left.set_ylabel(r"singular values of $W_1$")
    points = [
        right.plot(np.sort(third(data, name)), mark, color=colour, ms=3)[0]
        for name, colour, mark in (
            ("large", GREY, "s"),
            ("few", PURPLE, "^"),
            ("small", GREEN, "o"),
        )
    ]
    right.set(yscale="log", xlabel="seed, sorted", title=r"$\sigma_3/\sigma_2$ at the end")
    words = ["two largest", "others", f"{s.n} samples, large start"]
    words += [f"{s.few} samples, small start", f"{s.n} samples, small start"]
    handles = [lines[0], lines[-1], *points]
    figure.legend(handles, words, loc="outside lower center", ncols=3)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    loss = data["small_loss"].values
    fitted = (loss[:, -1] < 1e-3 * loss[:, 0]).mean()
    small, large = (float(np.median(third(data, n))) for n in ("small", "large"))
    many, few = (float((third(data, name) > s.low_rank).mean()) for name in ("small", "few"))
    return [
        Check("part of the seeds that fit, small start", float(fitted), low=0.8),
        Check("small start: median of σ₃/σ₂, rank two", small, high=0.1),
        Check("large start: median of σ₃/σ₂, full rank", large, low=0.6),
        Check(f"n = {s.n}: part of the seeds above {s.low_rank:g}", many, high=0.25),
        Check(f"n = {s.few}: part of the seeds above {s.low_rank:g}", few, 0.25, 0.9),
    ]


RELU = Figure(
    id="spectral.2",
    title="ReLU: a small start finds the rank of the teacher",
    caption=(
        "A ReLU net with 20 neurons learns the labels of two. Left and middle: singular values of "
        "its first layer for the seed with the median outcome, from a small and a large start. "
        "Right: the third over the second at the end, all seeds. No theorem predicts this; the "
        "claim is rank two from small starts. With 40 samples and orthonormal teachers it is seen "
        "in almost all seeds (circles) and never from large starts (squares). With the paper's ten "
        "samples it depends on the seed, as we read it (triangles): a small start then finds some "
        "low-rank fit, but often not of rank two."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "n": 40,
        "few": 10,
        "d": 5,
        "width": 20,
        "signs": (1.0, -1.0),
        "small": 1e-3,
        "large": 1.0,
        "low_rank": 0.1,
        "lr": 0.05,
        "steps": 12000,
        "seeds": 24,
    },
    full={"steps": 48000, "seeds": 96},
    wide=True,
    height=0.8,
)
