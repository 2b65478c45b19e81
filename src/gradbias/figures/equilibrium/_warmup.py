"""Figure 4: warm-up takes a net to where a large step is stable."""

import numpy as np
import xarray as xr

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent, piecewise
from ...init import kaiming, xavier
from ...nets import TwoLayer
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...plot import BLACK, BLUE, GREEN, ORANGE, PURPLE
from ...problems import Population
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

LOOKS = {
    "Kaiming, large step": (ORANGE, "-", "X"),
    "Kaiming, warm-up": (BLUE, "-", "o"),
    "Xavier, large step": (GREEN, "--", "s"),
    "Kaiming, GD": (PURPLE, "-.", "^"),
}


def problem(s: Settings, seed: int) -> Population:
    """Fresh samples y = vvᵀx + ε with ‖v‖ = 1."""
    v = generator(100 * s.key + seed, "figures.warmup").standard_normal(s.d)
    v /= np.linalg.norm(v)
    return Population(np.eye(s.d), np.outer(v, v), np.eye(s.d))


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    net = TwoLayer(s.d, s.d, 1)
    # Constant steps as schedules too: one compiled program serves all arms with noise.
    rates = {arm: piecewise({0: s.lr, s.warm: s.lr}) for arm in LOOKS}
    rates["Kaiming, warm-up"] = piecewise({0: s.small, s.warm: s.lr})
    rates["Kaiming, GD"] = piecewise({0: s.small, s.warm: s.small})

    def build(arm: str, seed: int) -> Setup:
        key = 100 * s.key + seed
        # The paper's Xavier has half of Glorot's variance.
        paper = xavier(net, key=key, gain=np.sqrt(0.5))
        start = paper if arm.startswith("Xavier") else kaiming(net, key=key, gain=1.0)
        noise = None if arm.endswith("GD") else Minibatch(s.batch)
        save = np.unique(np.concatenate([[0], np.geomspace(1, s.steps, s.saves).astype(int)]))
        return Setup(
            problem(s, seed),
            net,
            start,
            Descent(rates[arm], noise),
            Until(steps=s.steps),
            {"trace": observe.hessian_trace},
            save,
            key=key + 10_000 * list(LOOKS).index(arm),  # no two arms share their noise
        )

    runs = lab.sweep(build, {"arm": list(LOOKS), "seed": range(s.seeds)})
    return runs[["trace", "stopped_at"]].drop_attrs()


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    top = 30 * float(data["trace"].isel(step=0).max())
    for arm, (colour, line, marker) in LOOKS.items():
        median = data["trace"].sel(arm=arm).median("seed", skipna=False)[1:]
        inside = np.flatnonzero((median <= top).values)
        shown = median[: inside[-1] + 1]  # a run that diverges leaves the picture
        ax.plot(shown["step"], shown, line, color=colour, label=arm)
        ax.plot(shown["step"][-1], shown[-1], marker, color=colour, clip_on=False)
    ax.axhline(4 * s.d, color=BLACK, lw=0.9, label="noise equilibrium, 4d")
    ax.axvline(s.warm, color="#999999", lw=0.7, ls=":")
    note = {"va": "top", "ha": "right", "fontsize": "x-small", "color": "#555555", "rotation": 90}
    ax.annotate("warm-up ends", (s.warm, top), (-3, 0), textcoords="offset points", **note)
    ax.set(xscale="log", yscale="log", xlabel="step", ylabel=r"$\mathrm{Tr}\,H$", ylim=(50, top))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    last = data["trace"].isel(step=-1)
    first = data["trace"].isel(step=0)
    lost = float(data["stopped_at"].sel(arm="Kaiming, large step").max())
    late = data["trace"].isel(step=slice(-8, None)).mean("step")
    told = 4.0 * s.d
    warm = late.sel(arm="Kaiming, warm-up").values
    slow = late.sel(arm="Xavier, large step").values
    kept = (last / first).sel(arm="Kaiming, GD").values
    return [
        Check("large step at once: the last seed diverges at step", lost, high=100),
        Check("warm-up: smallest Tr H at the end ÷ 4d", warm.min() / told, low=0.8),
        Check("warm-up: largest Tr H at the end ÷ 4d", warm.max() / told, high=1.25),
        Check(
            "Xavier: largest distance of Tr H ÷ 4d from 1", abs(slow / told - 1).max(), high=0.25
        ),
        Check("GD keeps its Tr H: smallest end ÷ start", kept.min(), low=0.85),
    ]


WARMUP = Figure(
    id="equilibrium.4",
    title="Warm-up lets noise balance the layers first",
    caption=(
        r"A linear autoencoder with one hidden unit, $y = vv^Tx + \varepsilon$ in 50 dimensions. "
        "From Kaiming's start a large step diverges at once (cross). Small steps first let the "
        "gradient noise move the net towards its noise equilibrium, where "
        r"$\mathrm{Tr}\,H = 4d$ (black line, predicted); then the large step is stable, and the "
        "trace ends there. Xavier's start is near the equilibrium and needs no warm-up. Gradient "
        "descent without noise keeps its sharp start. Lines are medians over seeds; every seed is "
        "checked, and all of them agree."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "d": 50,
        "batch": 2,
        "lr": 0.008,
        "small": 0.001,
        "warm": 5000,
        "steps": 10_000,
        "saves": 120,
        "seeds": 3,
    },
    full={"seeds": 12, "steps": 20_000},
    default=True,
    height=0.95,
)
