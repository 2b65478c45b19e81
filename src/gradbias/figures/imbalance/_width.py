"""Figures 1 and 4: wide nets end near the solution of least norm."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ... import init, observe, problems, theory
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Net, TwoLayer
from ...numerics.types import PyTree
from ...plot import BLACK, BLUE, ORANGE, sweep
from ...problems import Problem, Regression
from .._figure import Axes, Canvas, Check, Figure, Settings
from .._lab import Lab

ALPHA = 0.5  # entries start as N(0, 1/h)
MANY = 1000  # more than the widths and the members of any run
SIZES = {"n": 100, "d": 400}  # samples and inputs, of both figures
TICKS = (500, 1000, 2000, 5000, 10_000)


def data(s: Settings) -> Regression:
    """Inputs and teacher with entries N(0, 1/D), little label noise."""
    return _data(s.n, s.d, s.noise, s.key)


@functools.lru_cache(maxsize=8)
def _data(n: int, d: int, noise: float, key: int) -> Regression:
    std = d**-0.5
    teacher = problems.gaussian_teacher(d, std=std, key=key)
    return problems.gaussian(n, d, noise=noise, std=std, teacher=teacher, key=key)


def second(problem: Problem, net: Net, params: PyTree) -> jax.Array:
    """‖V‖², of which the distance at the end is made."""
    return jnp.sum(params["W2"] ** 2)


def drawn(s: Settings, width: int, member: int) -> dict[str, np.ndarray]:
    """A Gaussian start of its own for every width and member."""
    key = MANY * (MANY * s.key + s.widths.index(width)) + member
    return init.inverse_width(TwoLayer(s.d, 1, width), ALPHA, key=key)


def start(s: Settings, width: int, member: int) -> dict[str, np.ndarray]:
    """The same in the hidden directions that matter, no more than n + 1 of them.

    What lies outside the span of V and U1 neither learns nor shows in the predictor; without it
    nets of all widths have one shape, and one program runs them.
    """
    W1, W2 = drawn(s, width, member).values()
    Q = np.linalg.qr(np.hstack([W2, W1.T @ data(s).row_space])).Q
    return {"W1": W1 @ Q, "W2": Q.T @ W2}


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    problem = data(s)
    runs = ("width", "member")
    record = {"loss": observe.loss, "theta": observe.theta, "second": second}
    starts = {(w, m): start(s, w, m) for w in s.widths for m in range(s.members)}

    def build(width: int, member: int) -> Setup:
        params = starts[width, member]
        net = TwoLayer(s.d, 1, len(params["W2"]))
        until = Until(gap=s.stop, steps=s.steps)
        return Setup(problem, net, params, Descent(s.lr), until, record, [s.steps])

    done = lab.sweep(build, {"width": s.widths, "member": range(s.members)})
    error = done["theta_end"].values - np.ravel(problem.min_norm)
    first = np.stack([(p["W1"] @ p["W2"])[:, 0] for p in starts.values()])
    limit = theory.infinite_width_limit(problem)
    return xr.Dataset(
        {
            "distance": (runs, np.linalg.norm(error, axis=-1)),
            "unseen": (runs, _outside(problem, error)),
            "initial": (runs, _outside(problem, first).reshape(len(s.widths), -1)),
            "second": (runs, done["second_end"].values),
            "told": ("width", [limit.distance(width) for width in s.widths]),
            "told_initial": ("width", [np.sqrt(limit.unseen / width) for width in s.widths]),
            "free": limit.unseen,
        },
        {"width": list(s.widths)},
    )


def _outside(problem: Regression, theta: np.ndarray) -> np.ndarray:
    """‖U2 Vᵀ‖: the length of the part that the data do not see."""
    basis = problem.row_space
    return np.linalg.norm(theta - theta @ basis @ basis.T, axis=-1)


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, middle, right = figure.subplots(1, 3)
    for ax in (left, middle):
        sweep(data, y="distance", over="member", ax=ax, ls="none", color=BLUE, label="simulated")
        _line(ax, data, "told", "-", "theory, wide nets")
    left.set(ylabel=r"$\|U(t_f)V(t_f)^\top - \hat\Theta\|_F$", ylim=(0, None))
    left.set(xscale="linear", xlabel="width $h$")
    sweep(data, y="unseen", over="member", ax=right, ls="none", color=BLUE, label=r"at $t_f$")
    hollow: dict[str, Any] = {"color": ORANGE, "marker": "s", "mfc": "none", "ls": "none"}
    sweep(data, y="initial", over="member", ax=right, label="at 0", **hollow)
    _line(right, data, "told", "-", r"theory, $t_f$")
    _line(right, data, "told_initial", "--", "theory, 0")
    _logarithmic(middle, s, "")
    _logarithmic(right, s, r"$\|U_2V^\top\|_F$")


def _line(ax: Axes, data: xr.Dataset, name: str, style: str, label: str) -> None:
    """A prediction c/√h, smooth between the widths that were run."""
    widths = np.geomspace(float(data["width"][0]), float(data["width"][-1]), 60)
    first = float(data[name][0]) * np.sqrt(float(data["width"][0]))
    ax.plot(widths, first / np.sqrt(widths), style, color=BLACK, lw=0.9, label=label)


def _logarithmic(ax: Axes, s: Settings, label: str) -> None:
    """Both axes, with plain numbers at the widths that were run."""
    ax.set(xscale="log", yscale="log", ylabel=label, xlabel="width $h$")
    ax.set_xticks(s.widths, [f"{width:g}" for width in s.widths])
    levels = (0.2, 0.3, 0.4, 0.6, 0.8)
    ax.set_yticks(levels, [f"{level:g}" for level in levels])
    ax.minorticks_off()
    ax.legend(loc="lower left")


def slope(data: xr.Dataset, name: str) -> float:
    """Of the mean over the width, both logarithmic."""
    mean = data[name].mean("member")
    return float(np.polyfit(np.log(data["width"]), np.log(mean), 1)[0])


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    free = float(data["free"])
    size = data["distance"].size
    squares = data["unseen"] ** 2 * data["width"] / data["second"]
    z = (float(squares.sum()) - size * free) / np.sqrt(2 * size * free)
    ratio = data["distance"].mean("member") / data["told"]
    within = np.abs(data["unseen"] / data["distance"] - 1).max()
    return [
        Check("slope of the distance over the width", slope(data, "distance"), -0.55, -0.45),
        Check("slope of the start's part outside the data", slope(data, "initial"), -0.55, -0.45),
        Check("law of the bias, z of all runs together", float(z), -4, 4),
        Check("largest width: measured over infinite-width theory", float(ratio[-1]), 0.9, 1.1),
        Check("part of the distance inside the row space, relative", float(within), high=1e-3),
    ]


FIGURE_1 = Figure(
    id="imbalance.1",
    title="Wide nets end near the solution of least norm",
    caption=(
        "Two-layer linear nets with Gaussian layers of variance $1/h$, trained by GD until the "
        "loss is below $10^{-8}$; means and standard errors. Left and middle: the distance to the "
        r"solution $\hat\Theta$ of least norm falls like $h^{-1/2}$, and lies on "
        r"$\sqrt{(D-r)\,\mathrm{tr}N_\infty/h}$, where $N_\infty$ is the limit of infinitely wide "
        "nets, without a run (black; a few per cent high at small widths). Right: the part of the "
        "predictor that the data do not see, at the start and at the end. Given $V(t_f)$ its "
        r"square is a multiple of $\chi^2_{D-r}$ exactly, which all runs together confirm. The "
        "width that Theorem 2 asks for, over $10^5$, is not reached here nor in the paper; the "
        "rate holds long before."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        **SIZES,
        "noise": 0.01,
        "lr": 0.5,
        "stop": 1e-8,
        "steps": 2000,
        "widths": (500, 1000, 2000, 5000),
        "members": 8,
    },
    full={"lr": 5e-3, "steps": 200_000, "widths": TICKS, "members": 5},
    default=True,
    wide=True,
)
