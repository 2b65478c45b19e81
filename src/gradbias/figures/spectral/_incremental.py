"""Whitened data: singular values are learned one after the other (Lemma C.12)."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ... import observe, theory
from ..._engine.setup import Setup, Until
from ...dynamics import Flow
from ...init import orthogonal as orthogonal_init
from ...nets import TwoLayer
from ...numerics.host_rng import generator
from ...plot import BLACK, COLOURS, GREY
from ...problems import Regression, orthogonal
from .._figure import Animation, Axes, Canvas, Check, Figure, Settings
from .._lab import Lab

if TYPE_CHECKING:
    import matplotlib.artist
    import matplotlib.lines

STYLES = ("-", "--", "-.")


def problem(s: Settings) -> Regression:
    """Orthogonal inputs, and a teacher with these singular values."""
    rng = generator(s.key, "figures.incremental")
    k = len(s.sigma)
    left = np.linalg.qr(rng.standard_normal((s.d, k)))[0]
    right = np.linalg.qr(rng.standard_normal((k, k)))[0]
    return orthogonal(s.d, k, teacher=left * np.asarray(s.sigma) @ right.T, key=s.key)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    data = problem(s)
    net = TwoLayer(s.d, len(s.sigma), s.width)
    sigma = np.asarray(s.sigma)
    times = np.linspace(0, s.time, s.saves)
    setup = Setup(
        data,
        net,
        orthogonal_init(net, s.gamma, key=s.key),
        Flow(rtol=1e-10, atol=1e-13),
        Until(time=s.time),
        {"values": observe.singular_values("theta")},
        times,
    )
    run = lab.simulate(setup)
    return xr.Dataset(
        {
            "values": (("time", "value"), run.data["values"].values),
            "theory": (("time", "value"), theory.whitened_trajectory(sigma, s.gamma, times)),
            "half": ("value", theory.half_time(sigma, s.gamma)),
        },
        {"time": times},
    )


def lines(ax: Axes, data: xr.Dataset, s: Settings) -> "list[matplotlib.lines.Line2D]":
    """The simulated lines over the theory; returned, so that a film can move them."""
    times = data["time"].values
    ax.plot(times, data["theory"].values, color=BLACK, lw=3, alpha=0.25)
    drawn = []
    for i, sigma in enumerate(s.sigma):
        (line,) = ax.plot(times, data["values"].values[:, i], STYLES[i % 3], color=COLOURS[i])
        line.set_label(rf"$\sigma^* = {sigma:g}$")
        drawn.append(line)
        half = float(data["half"][i])
        ax.plot([half, half], [0, sigma / 2], ":", color=GREY, lw=0.8)
        ax.plot(half, sigma / 2, "o", mfc="none", mec=BLACK, zorder=3)
    ax.set(xlabel=r"time $t$ = lr · steps", ylabel=r"singular values of $W_1W_2$")
    ax.set_xlim(0, s.time)
    return drawn


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    lines(ax, data, s)
    ax.plot([], [], color=BLACK, lw=3, alpha=0.25, label="Lemma C.12")
    ax.plot([], [], "o", mfc="none", mec=BLACK, label="predicted half time")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def frames(figure: Canvas, data: xr.Dataset, s: Settings) -> Animation:
    """The singular values as they grow: over time, and as bars."""
    from matplotlib.animation import FuncAnimation

    figure.set_layout_engine("constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    moving = lines(left, data, s)
    left.set_xlabel("time")
    bars = right.bar(range(len(s.sigma)), s.sigma, color=COLOURS[: len(s.sigma)])
    right.bar(range(len(s.sigma)), s.sigma, fill=False, ec=BLACK, lw=0.8)
    right.set(xticks=[], ylim=left.get_ylim(), title="learned")
    times = data["time"].values
    values = data["values"].values

    def show(row: int) -> "list[matplotlib.artist.Artist]":
        for i, line in enumerate(moving):
            line.set_data(times[: row + 1], values[: row + 1, i])
            bars[i].set_height(values[row, i])
        return [*moving, *bars]

    rows = np.unique(np.linspace(0, len(times) - 1, 60).astype(int)).tolist()
    return FuncAnimation(figure, show, [*rows, *[rows[-1]] * 10], blit=False)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    times = data["time"].values
    values = data["values"].values
    off = np.abs(values - data["theory"].values).max() / max(s.sigma)
    found = [np.interp(0.5, values[:, i] / star, times) for i, star in enumerate(s.sigma)]
    late = np.abs(np.asarray(found) / data["half"].values - 1).max()
    printed = -np.log(s.gamma) / (2 * np.asarray(s.sigma))
    gap = np.min(np.asarray(found) - printed)
    waiting = values[np.searchsorted(times, found[0]), 1] / s.sigma[1]
    return [
        Check("largest error of a singular value over σ*", float(off), high=1e-6),
        Check("relative error of the half times", float(late), high=1e-3),
        Check("second one learned when half of the first is", float(waiting), high=0.05),
        Check("half times after the printed −ln γ/(2σ*), by", float(gap), low=0.2),
    ]


INCREMENTAL = Figure(
    id="spectral.incremental",
    title="Singular values are learned one after the other",
    caption=(
        "Whitened inputs, a small orthogonal start, gradient flow. Coloured lines: the singular "
        "values of the simulated predictor; wide grey lines: the closed form of Lemma C.12, in a "
        "form that keeps its digits for every $\\gamma$. They agree to better than one part in a "
        "million. Each value waits near zero and then jumps, the largest first. Rings mark the "
        r"half times $\ln(2\sigma^*/\gamma)/(2\sigma^*)$; as we read it, the text gives "
        r"$-\ln\gamma/(2\sigma^*)$, where a value is at $\sigma^*/(1+2\sigma^*)$, which depends on "
        "the units."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "sigma": (3.0, 2.0, 1.0),
        "gamma": 1e-6,
        "d": 5,
        "width": 20,
        "time": 10.0,
        "saves": 401,
    },
    default=True,
    frames=frames,
)
