"""Decoupled decay ends in a box, decay in the gradient at ridge regression."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Adam
from ...geometry import Linf
from ...nets import Deep
from ...numerics.host_rng import generator
from ...plot import BLUE, GREY, ORANGE
from ...problems import Regression
from ...theory.optimisers import decay_ball
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

NAMES = {"AdamW": True, "Adam, decay in the gradient": False}


def problem(s: Settings) -> Regression:
    """Two correlated inputs, of which one wants a large weight."""
    rng = generator(s.key, "figures.optimiser box")
    X = rng.standard_normal((s.n, 2)) @ np.array([[1.0, s.mixed], [0.0, 1.0]])
    return Regression.half_mean(X, X @ np.asarray(s.best) + 0.1 * rng.standard_normal(s.n))


def shrinking(k: int) -> float:
    """A learning rate whose sum has no end."""
    return 0.02 / (1 + k / 300)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    data = problem(s)
    saves = np.unique(np.concatenate([[0], np.geomspace(1, s.steps, s.saves).astype(int)]))
    start = {"W1": np.asarray(s.start)[:, None]}
    paths = []
    for decoupled in NAMES.values():
        moves = Adam(shrinking, (0.9, 0.99), 0.0, s.decay, decoupled)
        setup = Setup(data, Deep([2, 1]), start, moves, Until(steps=s.steps), None, saves)
        paths.append(lab.simulate(setup).data["theta"].values.reshape(len(saves), 2))
    X = np.asarray(data.X)
    ridge = np.linalg.solve(X.T @ X / s.n + s.decay * np.eye(2), X.T @ np.ravel(data.labels) / s.n)
    box = np.ravel(decay_ball(data, s.decay, Linf).theta)
    return xr.Dataset(
        {
            "path": (("how", "step", "entry"), paths),
            "told": (("how", "entry"), [box, ridge]),
            "free": ("entry", np.ravel(np.asarray(data.min_norm))),
        },
        {"how": list(NAMES), "step": saves},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    side = 1 / s.decay
    x = np.linspace(-1.2 * side, 1.8 * side, 200)
    y = np.linspace(-1.2 * side, 1.2 * side, 200)
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    fit = problem(s)
    off = grid @ np.asarray(fit.X).T - np.ravel(fit.labels)
    loss = (off**2).mean(axis=-1)
    levels = loss.min() + np.geomspace(0.02, 1.5, 7)
    ax.contour(x, y, loss, levels=levels, colors=GREY, linewidths=0.6)
    corners = side * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    ax.plot(*corners.T, color="black", lw=1, label=r"$\max|\theta| = 1/\lambda$")
    for name, color in zip(NAMES, (BLUE, ORANGE), strict=True):
        path = data["path"].sel(how=name).values
        ax.plot(*path.T, color=color, label=name)
        ax.plot(*data["told"].sel(how=name).values, "o", mfc="none", mec="black", ms=8)
    ax.plot(*data["free"].values, "x", color=GREY)
    ax.plot([], [], "o", mfc="none", mec="black", label="predicted end")
    ax.plot([], [], "x", color=GREY, ls="", label="least squares")
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    ax.set_xlabel(r"$\theta_1$")
    ax.set_ylabel(r"$\theta_2$")
    ax.set_aspect("equal")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    ends = data["path"].isel(step=-1).values
    error = np.linalg.norm(ends - data["told"].values, axis=1) * s.decay
    apart = float(np.linalg.norm(ends[0] - ends[1])) * s.decay
    return [
        Check(
            "AdamW: distance of its end to the box minimiser, in 1/λ", float(error[0]), high=2e-3
        ),
        Check("Adam: distance of its end to ridge, in 1/λ", float(error[1]), high=2e-3),
        Check("distance of the two ends, in 1/λ", apart, low=0.05),
        Check("AdamW: λ·max|θ| at the end", float(np.abs(ends[0]).max()) * s.decay, 0.999, 1.001),
    ]


BOX = Figure(
    id="optimiser.3",
    title="Decoupled decay is a box, coupled decay is ridge",
    caption=(
        "Least squares with two weights, from one start, by Adam with the same decay $\\lambda$ "
        "and a shrinking learning rate. AdamW, whose decay acts on the weights, ends at the least "
        "loss in the square $\\max|\\theta| \\le 1/\\lambda$: one weight sits on the side and the "
        "other makes the best of it. With decay in the gradient Adam ends at ridge regression, "
        "inside the square. Circles are the two minimisers, computed without a step; the cross is "
        "the least-squares solution, and grey lines are levels of the loss."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "n": 40,
        "mixed": 0.5,
        "best": (1.5, -0.4),
        "start": (-0.2, 0.8),
        "decay": 1.0,
        "steps": 20_000,
        "saves": 300,
    },
    height=1.0,
)
