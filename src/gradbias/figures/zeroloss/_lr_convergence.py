"""SGD tends to the limiting flow: at which rate in the learning rate."""

from typing import Any

import numpy as np
import xarray as xr

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Diagonal
from ...noise import LabelNoise
from ...plot import BLACK, BLUE, ORANGE
from ...problems import Regression
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._sparse import SIZES, flow, limits, regression, start


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    problem = regression(s)
    first = start(s)
    target = flow(problem, first, [s.time], s.std**2)[0]
    rows = []
    for lr in s.lrs:
        x = _ends(s, lab, problem, first, lr)
        ends = limits(problem, x[:, : s.d], x[:, s.d :])
        mean = ends.mean(axis=0) - target
        error = ends.std(axis=0) / np.sqrt(len(x))
        away = np.sqrt(np.mean(np.sum((x - ends) ** 2, axis=1)))
        rows.append((np.linalg.norm(mean), np.linalg.norm(error), away))
    names = ("weak", "error", "away")
    return xr.Dataset(
        {name: ("lr", column) for name, column in zip(names, np.transpose(rows), strict=True)},
        {"lr": list(s.lrs)},
    )


def _ends(
    s: Settings, lab: Lab, problem: Regression, first: dict[str, np.ndarray], lr: float
) -> np.ndarray:
    """(u, v) of every seed at the time T, (seeds, 2d)."""
    steps = round(s.time / lr**2)

    def build(seed: int) -> Setup:
        dynamics = Descent(lr, LabelNoise(s.std, 1))
        key = 10000 * s.key + seed
        until = Until(steps=steps)
        record = [observe.params]
        return Setup(problem, Diagonal(s.d), first, dynamics, until, record, [steps], key)

    ends = lab.sweep(build, {"seed": range(s.seeds)})
    return np.concatenate([ends[f"params_{half}_end"].values for half in "uv"], axis=-1)


def predicted(s: Settings, lrs: np.ndarray) -> np.ndarray:
    """The root mean square of x − Φ(x): variance δ²·lr/2 in each of n directions across."""
    return s.std * np.sqrt(lrs * s.n / 2)


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    lrs = data["lr"].values
    weak = ax.errorbar(lrs, data["weak"], data["error"], fmt="o", color=BLUE, capsize=2)
    (away,) = ax.plot(lrs, data["away"], "s", color=ORANGE, mfc="none")
    last = int(np.argmin(lrs))
    (one,) = ax.plot(lrs, float(data["weak"][last]) * lrs / lrs[last], color=BLACK, lw=0.9)
    (two,) = ax.plot(lrs, predicted(s, lrs), "--", color=BLACK, lw=0.9)
    ax.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="distance")
    ax.set_xticks(lrs, [f"{lr:g}" for lr in lrs])
    ax.minorticks_off()
    words = [r"mean of $\Phi(x)$ to $Y(T)$", "slope 1", r"$x$ to $\Phi(x)$, rms", "predicted"]
    handles: list[Any] = [
        weak,
        one,
        away,
        two,
    ]  # matplotlib's types forget containers
    figure.legend(handles, words, loc="outside lower center", ncols=2)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    log = np.log(data["lr"].values)
    slopes = {name: np.polyfit(log, np.log(data[name].values), 1)[0] for name in ("weak", "away")}
    cloud = data["away"].values / predicted(s, data["lr"].values)
    signal = float((data["weak"] / data["error"]).min())
    return [
        Check("order of the mean of Φ(x)", float(slopes["weak"]), 0.8, 1.25),
        Check("order of the distance of x to Φ(x)", float(slopes["away"]), 0.4, 0.65),
        Check("that distance over √(δ²·lr·n/2), least lr", float(cloud[np.argmin(log)]), 0.9, 1.15),
        Check("weakest signal over its standard error", signal, low=3),
    ]


LR_CONVERGENCE = Figure(
    id="zeroloss.lr_convergence",
    title="SGD tends to its limit with order one",
    caption=(
        "A diagonal net under label noise with batches of one, T/lr² steps for each learning rate, "
        "many runs. Circles: the mean over runs of Φ(x), where gradient flow from the last "
        "iterate would end, against the limiting flow Y(T), which is known in closed form. It "
        "falls in proportion to lr. Squares: the distance from the iterate to its own Φ(x), the "
        r"noise across the manifold; predicted $\delta\sqrt{\mathrm{lr}\,n/2}$ (dashed), of order "
        "one half. So Φ(x), not x, is to be compared. Theorem 4.6 says that the difference "
        "vanishes; that its order is one is measured."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        **SIZES,
        "time": 0.5,
        "lrs": (0.04, 0.02, 0.01, 0.005),
        "seeds": 300,
    },
    full={"lrs": (0.04, 0.02, 0.01, 0.005, 0.0025), "seeds": 1000},
    height=0.9,
)
