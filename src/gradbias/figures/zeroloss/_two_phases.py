"""Figure 2: first down to zero loss, then slowly along it."""

from typing import TYPE_CHECKING

import numpy as np
import scipy.integrate
import xarray as xr

from ..._engine.setup import log_spaced_steps
from ...noise import LabelNoise
from ...numerics.host_rng import generator
from ...plot import BLACK, BLUE, GREY, ORANGE
from ...problems import Hyperbola
from .._figure import Animation, Axes, Canvas, Check, Figure, Settings
from .._lab import Lab
from ._copies import descent

if TYPE_CHECKING:
    import matplotlib.artist

LOSS = Hyperbola()


def start(s: Settings) -> np.ndarray:
    """Another key moves it a little."""
    shift = generator(s.key, "figures.two_phases").uniform(-1, 1, 2)
    return np.asarray(s.start) * (1 + s.jitter * shift)


def difference(x: np.ndarray) -> np.ndarray:
    """x₁² − x₂², which gradient flow keeps."""
    return (x[..., 0] - x[..., 1]) * (x[..., 0] + x[..., 1])


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    x0 = start(s)
    steps = round(s.time / s.lr**2)
    both = [log_spaced_steps(steps, 150), np.linspace(0, steps, 150).astype(int)]
    saves = np.unique(np.concatenate(both))
    setup = descent(LOSS, np.tile(x0, (s.copies, 1)), LabelNoise(s.std), s.lr, saves, s.key)
    x = lab.simulate(setup).data["x"].values
    times = saves * s.lr**2
    return xr.Dataset(
        {
            "x": (("step", "copy", "entry"), x),
            "limit": (("step", "entry"), LOSS.limiting_flow(x0, times, s.std**2)),
            "corrected": ("step", _corrected(s, float(difference(x0[None])[0]), times)),
            "flow": (("way", "entry"), _flow(x0)),
            "reached": ("entry", LOSS.limit(x0)),
        },
        {"step": saves},
    )


def _corrected(s: Settings, m: float, times: np.ndarray) -> np.ndarray:
    """x₁² − x₂² of the limit with the first correction for a finite step.

    A step multiplies it by 1 − lr²(r + ε)², and E r² on the manifold is lr·δ²·tr H/2.
    """

    def field(_: float, m: np.ndarray) -> np.ndarray:
        return -(s.std**2) * (1 + s.lr * np.sqrt(m**2 + 4) / 2) * m

    ends = (0.0, float(times[-1]))
    return scipy.integrate.solve_ivp(field, ends, [m], t_eval=times, rtol=1e-9).y[0]


def _flow(x0: np.ndarray) -> np.ndarray:
    """Gradient flow from x0, drawn as phase one."""

    def field(_: float, x: np.ndarray) -> np.ndarray:
        return -(x[0] * x[1] - 1) * x[::-1]

    return scipy.integrate.solve_ivp(field, (0.0, 20.0), x0, rtol=1e-9, max_step=0.05).y.T


def plane(ax: Axes, data: xr.Dataset, s: Settings) -> None:
    """The curve of minima, phase one, and the end of phase two."""
    x, y = start(s)
    high = 1.08 * float(x)
    along = np.linspace(0.5, high, 200)
    ax.plot(along, 1 / along, color=GREY, lw=2.5, alpha=0.5)
    ax.plot(*data["flow"].values.T, "-.", color=BLACK, lw=1)
    ax.plot(x, y, "o", color=BLACK, ms=4)
    ax.annotate("start", (x, y), (-4, -10), textcoords="offset points", ha="right")
    ax.set(xlim=(0, high), ylim=(-0.1, 1.6), xlabel="$x_1$", ylabel="$x_2$")


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, middle, right = figure.subplots(1, 3)
    steps = data["step"].values
    x = data["x"].values
    plane(left, data, s)
    left.plot(*x[:, 0].T, ".", color=BLUE, ms=1.5, alpha=0.7, zorder=1)
    ticks = np.searchsorted(steps, np.array([1 / 6, 1 / 3, 2 / 3, 1]) * steps[-1])
    left.plot(*data["limit"].values[ticks].T, "o", mfc="none", mec=BLACK, ms=6, zorder=3)
    left.set_title("one run, and the limiting flow")
    k = steps[1:]
    middle.plot(k, difference(x)[1:].mean(axis=1), color=BLUE)
    middle.plot(k, difference(data["limit"].values)[1:], "--", color=BLACK)
    middle.set(xscale="log", xlabel="step", title="$x_1^2 - x_2^2$", ylim=(0, None))
    loss = 0.5 * (x[..., 0] * x[..., 1] - 1)[1:] ** 2
    right.plot(k, loss.mean(axis=1), color=BLUE)
    right.plot(k, _plateau(data, s)[1:], "--", color=BLACK)
    right.set(xscale="log", yscale="log", xlabel="step", title="loss")
    handles = [middle.lines[0], middle.lines[1], left.lines[1], left.lines[-1]]
    words = [f"SGD, {s.copies} runs", "theory", "gradient flow", "limit, four times"]
    figure.legend(handles, words, loc="outside lower center", ncols=4)


def _plateau(data: xr.Dataset, s: Settings) -> np.ndarray:
    """δ²·lr·tr H/4: the loss that the noise holds up."""
    return s.std**2 * s.lr / 4 * np.sum(data["limit"].values ** 2, axis=1)


def frames(figure: Canvas, data: xr.Dataset, s: Settings) -> Animation:
    """The cloud as it falls onto the curve and slides along it."""
    from matplotlib.animation import FuncAnimation

    figure.set_layout_engine("constrained")
    ax = figure.subplots()
    plane(ax, data, s)
    x = data["x"].values
    limit = data["limit"].values
    steps = data["step"].values
    (cloud,) = ax.plot([], [], ".", color=BLUE, ms=3, alpha=0.6)
    (ring,) = ax.plot([], [], "o", mfc="none", mec=ORANGE, mew=2, ms=10)
    text = ax.text(0.98, 0.95, "", ha="right", va="top", transform=ax.transAxes)

    def show(row: int) -> "list[matplotlib.artist.Artist]":
        cloud.set_data(*x[row].T)
        ring.set_data(*limit[row][:, None])
        text.set_text(f"step {steps[row]}, $k$ lr² = {steps[row] * s.lr**2:.2f}")
        return [cloud, ring, text]

    last = len(steps) - 1
    early = np.geomspace(1, 0.05 * steps[-1], 30)
    late = np.linspace(0.05, 1, 60) * steps[-1]
    rows = np.searchsorted(steps, [0, *early, *late]).clip(max=last).tolist()
    rows += [last] * 10
    return FuncAnimation(figure, show, rows, blit=False)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    steps = data["step"].values
    x = data["x"].values
    early = int(np.searchsorted(steps, 1 / s.lr))  # gradient-flow time 1
    first = np.linalg.norm(x[early].mean(axis=0) - data["reached"].values)
    mean = difference(x[-1])
    error = 4 * mean.std() / np.sqrt(len(mean)) / data["corrected"].values[-1] + s.lr
    ratio = float(mean.mean() / data["corrected"].values[-1])
    plain = float(mean.mean() / difference(data["limit"].values)[-1])
    loss = 0.5 * (x[..., 0] * x[..., 1] - 1) ** 2
    late = steps * s.lr**2 > s.time / 3
    level = float(loss[late].mean() / _plateau(data, s)[late].mean())
    return [
        Check("phase one ends at Φ(start), distance", float(first), high=10 * s.lr),
        Check("x₁² − x₂² at the end over the limit", plain, 1 - 12 * s.lr, 1.0),
        Check("… with the first correction in lr", ratio, float(1 - error), float(1 + error)),
        Check("loss over δ²·lr·tr H/4, late", level, 0.9, 1.1),
    ]


TWO_PHASES = Figure(
    id="zeroloss.two_phases",
    title="First to zero loss, then along it",
    caption=(
        r"$L = \frac12(x_1x_2-1)^2$ with label noise. Left: gradient flow (dash-dotted) leads "
        "to the grey curve of minima in about 1/lr steps; then SGD (dots) slides along it for "
        "1/lr² steps, to the flattest point (1, 1); rings: the limiting flow at four times. "
        r"Middle: $x_1^2-x_2^2$ is kept in the first phase and decays as "
        r"$e^{-\delta^2k\,\mathrm{lr}^2}$ "
        r"in the second. Right: the loss rests at $\delta^2\mathrm{lr}\,\mathrm{tr}H/4$. The mean "
        "of all runs agrees with the limit (dashed) up to a few times lr, and to about lr after "
        "the first correction."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "start": (3.0, 0.1),
        "jitter": 0.05,
        "std": 1.0,
        "lr": 0.01,
        "time": 3.0,
        "copies": 64,
    },
    full={"copies": 1000},
    default=True,
    wide=True,
    height=0.8,
    frames=frames,
)
