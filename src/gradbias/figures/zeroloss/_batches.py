"""The batch size only changes the clock."""

import numpy as np
import xarray as xr

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Diagonal
from ...noise import LabelNoise
from ...plot import BLACK, COLOURS
from ...theory import diagonal
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._sparse import SIZES, flow, regression, start

MARKS = ("o", "s", "^")


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    problem = regression(s)
    first = start(s)
    times = np.linspace(0, s.time, s.saves)
    weights = np.tile(diagonal.decay_rates(problem), 2)  # R = Σ s_j(u_j² + v_j²)
    found = [_squares(s, lab, batch, times) @ weights for batch in s.batches]
    steps = [_steps(s, batch, times) for batch in s.batches]
    exact = flow(problem, first, times, 1.0) ** 2 @ weights
    return xr.Dataset(
        {
            "trace": (("batch", "time"), np.stack([one.mean(axis=0) for one in found])),
            "step": (("batch", "time"), np.stack(steps)),
            "exact": ("time", exact),
        },
        {"batch": list(s.batches), "time": times},
    )


def _steps(s: Settings, batch: int, times: np.ndarray) -> np.ndarray:
    """The steps at which c·k·lr² is these times, with c = δ²/b."""
    return np.round(times * batch / (s.lr * s.std) ** 2).astype(int)


def _squares(s: Settings, lab: Lab, batch: int, times: np.ndarray) -> np.ndarray:
    """u² and v² of every seed, (seeds, times, 2d)."""
    problem = regression(s)
    first = start(s)
    saves = _steps(s, batch, times)

    def build(seed: int) -> Setup:
        dynamics = Descent(s.lr, LabelNoise(s.std, batch))
        key = 10000 * s.key + seed
        until = Until(steps=int(saves[-1]))
        record = [observe.params]
        return Setup(problem, Diagonal(s.d), first, dynamics, until, record, saves, key)

    runs = lab.sweep(build, {"seed": range(s.seeds)})
    halves = [runs[f"params_{half}"].transpose("seed", "step", ...).values for half in "uv"]
    return np.concatenate(halves, axis=-1) ** 2


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    for number, batch in enumerate(s.batches):
        one = data.sel(batch=batch)
        kind = {"color": COLOURS[number], "marker": MARKS[number % 3], "mfc": "none", "lw": 0.8}
        kind["markevery"] = (2 * number, 6)
        left.plot(one["step"], one["trace"], label=f"batch of {batch}", **kind)
        right.plot(one["time"][1:], one["trace"][1:], **{**kind, "ls": "none"})
    right.plot(data["time"], data["exact"], color=BLACK)
    left.plot([], [], color=BLACK, label="limiting flow")
    left.set(xlabel="step $k$", ylabel=r"tr $H$, mean over runs", title="against steps")
    right.set(xlabel=r"$\delta^2 k\,$lr²$/b$", title="against the clock of the limit")
    handles, words = left.get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=4)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    later = data["time"].values >= 0.1 * s.time  # before it, SGD is on its way to the manifold
    exact = data["exact"].values[later]
    traces = data["trace"].values[:, later]
    steps = data["step"].values[:, later]
    off = np.abs(traces / exact - 1).max()
    apart = (np.ptp(traces, axis=0) / exact).max()
    middle = (exact[0] + exact[-1]) / 2
    half = [np.interp(-middle, -row, k) for row, k in zip(traces, steps, strict=True)]
    ratio = half[-1] / half[0] / (s.batches[-1] / s.batches[0])
    slow = np.interp(steps[0], steps[-1], traces[-1])  # the largest batch at the same step
    return [
        Check("largest relative distance to the flow", float(off), high=0.08),
        Check("largest relative distance between batches", float(apart), high=0.08),
        Check("the same against steps", float((np.abs(slow - traces[0]) / exact).max()), low=0.1),
        Check("steps to the middle over batch size, ratio", float(ratio), 0.8, 1.25),
    ]


BATCHES = Figure(
    id="zeroloss.batch_collapse",
    title="The batch size changes the clock, nothing else",
    caption=(
        "A diagonal net on three samples under label noise: the trace of the Hessian, mean over "
        "runs, for batches of one, two and all three. Against steps (left) a larger batch is "
        r"slower. Predicted: $\Sigma = (\delta^2/b)H$, so that the limit depends on $k$, lr, "
        r"$\delta$ and $b$ through $\delta^2k\,\mathrm{lr}^2/b$ alone. Against that clock (right) "
        "the three fall on one curve, and the curve is the limiting flow in closed form (black), "
        "up to an offset of the order of lr. Three times the batch takes three times the steps."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        **SIZES,
        "lr": 0.01,
        "time": 1.0,
        "batches": (1, 2, 3),
        "seeds": 160,
        "saves": 41,
    },
    full={"lr": 0.005, "seeds": 400},
    wide=True,
)
