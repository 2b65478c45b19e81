"""Figure 1b: label noise makes the first layer of rank one, whatever its init."""

import math

import numpy as np
import xarray as xr

from ... import observe, theory
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...init import orthogonal as orthogonal_init
from ...nets import TwoLayer
from ...noise import LabelNoise
from ...plot import BLACK, BLUE, ORANGE
from ...problems import Regression, orthogonal
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

RECORD = {"loss": observe.loss, "values": observe.singular_values("W1")}


def problem(s: Settings) -> Regression:
    """One output, white inputs."""
    return orthogonal(s.d, norm=s.norm, key=s.key)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    data = problem(s)
    net = TwoLayer(s.d, 1, s.width)
    start = orthogonal_init(net, s.gamma, key=s.key)

    def build(std: float, seed: int) -> Setup:
        dynamics = Descent(s.lr, LabelNoise(std, law="gaussian"))
        saves = np.linspace(0, s.steps, 101).astype(int)
        key = 1000 * s.key + seed
        return Setup(data, net, start, dynamics, Until(steps=s.steps), RECORD, saves, key)

    runs = lab.sweep(build, {"std": [0.0, s.std], "seed": range(s.seeds)})
    values = runs["values"].transpose("std", "seed", "step", ...).values
    beta = np.asarray(data.min_norm)
    flattest = theory.label_noise_rank_one_limit(beta, data.X)
    loss = runs["loss"].transpose("std", "seed", "step").values[0, 0]
    return xr.Dataset(
        {
            "descent": (("step", "value"), values[0, 0]),
            "noisy": (("seed", "step", "value"), values[1]),
            "loss": ("step", loss),
            "predicted": ("value", theory.spectral_limit(data, s.gamma).singular_values.W1),
            "flattest": float(flattest.W1[0]),
        },
        {"step": runs["step"].values},
    )


def decay(s: Settings, steps: np.ndarray) -> np.ndarray:
    """How label noise shrinks the singular values that the predictor does not need."""
    return np.sqrt(2 * s.gamma) * np.exp(-((s.lr * s.std) ** 2) * steps / 2)


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    steps = data["step"].values
    one = data.isel(seed=0)
    first = ax.plot(steps, data["descent"].values, color=BLUE, ls="--")
    second = ax.plot(steps, one["noisy"].values, color=ORANGE)
    (line,) = ax.plot(steps, decay(s, steps), color=BLACK, lw=0.8)
    rings = {"mfc": "none", "mec": BLACK, "clip_on": False, "zorder": 3, "ls": "none"}
    ends = np.full(s.d, steps[-1])
    (ring,) = ax.plot(ends, data["predicted"].values, "o", **rings)
    (square,) = ax.plot(steps[-1], float(data["flattest"]), "s", **rings)
    ax.set(yscale="log", xlabel="step", ylabel=r"singular values of $W_1$")
    handles = [first[0], second[0], ring, square, line]
    words = ["GD", "label noise", "limit, GD", "limit, noise", "predicted decay"]
    figure.legend(handles, words, loc="outside lower center", ncols=3)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    steps = data["step"].values
    noisy = data["noisy"].values
    off = np.abs(data["descent"].values[-1] ** 2 - data["predicted"].values ** 2).max()
    top = noisy[:, -len(steps) // 4 :, 0].mean() / float(data["flattest"]) - 1
    tail = np.log(noisy[:, :, 1:]).mean(axis=(0, 2))
    used = steps >= steps[-1] / 5  # after the fit
    rate = np.polyfit(steps[used], tail[used], 1)[0] / (-((s.lr * s.std) ** 2) / 2)
    second = float(data["descent"][-1, 1])
    left = np.median(noisy[:, -1, 1]) / second
    bound = s.lr * float(data["loss"][0])
    return [
        Check("GD: largest error of σ² over lr·L(0)", float(off / bound), high=1),
        Check("GD: σ₂ over √(2γ)", second / math.sqrt(2 * s.gamma), 0.99, 1.01),
        Check("label noise: relative error of σ₁, mean", float(top), -s.lr, s.lr),
        Check("label noise: decay rate over lr²δ²/2", float(rate), 0.85, 1.1),
        Check("label noise: σ₂ over that of GD, median", float(left), high=0.05),
    ]


LABEL_NOISE = Figure(
    id="spectral.1b",
    title="Label noise makes the first layer of rank one",
    caption=(
        "One output, five orthogonal inputs, width 200, a large start. Gradient descent (dashed) "
        r"raises one singular value of $W_1$ to the ring of Corollary 3.1 and leaves the other "
        r"four at $\sqrt{2\gamma}$. With fresh noise of standard deviation $\delta$ on the labels "
        "(solid) the others decay; the paper leaves the rate open. Descent on the trace of the "
        r"Hessian along the interpolators gives $e^{-\mathrm{lr}^2\delta^2k/2}$ after $k$ steps "
        r"(black line) and the limit $d^{1/4}|\beta^*|^{1/2}$ of the first one (square). Measured "
        "over eight runs, rate and limit agree to first order in the step."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "d": 5,
        "width": 200,
        "norm": 2.0,
        "gamma": 1.0,
        "lr": 0.05,
        "std": 1.0,
        "steps": 5000,
        "seeds": 8,
    },
    default=True,
    height=0.85,
)
