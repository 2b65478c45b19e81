"""Figure 1c: the velocity of the cloud along the manifold."""

from typing import Any

import numpy as np
import xarray as xr

from ...noise import LabelNoise
from ...plot import BLACK, BLUE, GREY, ORANGE
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._copies import descent
from ._ellipse import CURVE, angle, sharpness, speed


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    first = angle(s)
    phi = first + 2 * np.pi * np.arange(s.places) / s.places
    start = np.repeat(CURVE.point(phi), s.copies, axis=0)
    saves = np.array([s.steps // 4, s.steps])
    setup = descent(CURVE, start, LabelNoise(s.std), s.lr, saves, s.key)
    x = lab.simulate(setup).data["x"].values.reshape(2, s.places, s.copies, 2)
    angles = np.arctan2(x[..., 1] / CURVE.b, x[..., 0] / CURVE.a)
    angles = phi[:, None] + (angles - phi[:, None] + np.pi) % (2 * np.pi) - np.pi
    moved = (angles[1] - angles[0]) / ((saves[1] - saves[0]) * s.lr**2)
    middle = angles.mean(axis=(0, 2))
    stretch = np.hypot(CURVE.a * np.sin(middle), CURVE.b * np.cos(middle))
    every = np.linspace(first, first + 2 * np.pi, 61)
    return xr.Dataset(
        {
            "speed": ("place", stretch * moved.mean(axis=1)),
            "error": ("place", stretch * moved.std(axis=1, ddof=1) / np.sqrt(s.copies)),
            "predicted": ("place", speed(middle, s.std**2)),
            "line": ("angle", speed(every, s.std**2)),
            "sharpness": ("angle", sharpness(every)),
        },
        {"place": middle, "angle": every},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    (line,) = ax.plot(data["angle"], data["line"], color=BLACK, lw=1)
    kind = {"fmt": "o", "color": BLUE, "capsize": 2, "mfc": "none"}
    mean = ax.errorbar(data["place"], data["speed"], data["error"], **kind)
    ax.axhline(0, color=GREY, lw=0.5)
    ax.set(xlabel="angle on the ellipse (radians)", ylabel="velocity along, per $k\\,$lr²")
    second = ax.twinx()
    (trace,) = second.plot(data["angle"], data["sharpness"], "--", color=ORANGE, lw=0.9)
    second.set_ylabel(r"tr $H$", color=ORANGE)
    second.spines["right"].set_visible(True)
    words = ["SGD", r"$-\frac{1}{4}\delta^2\nabla_T\mathrm{tr}H$", r"tr $H$"]
    handles: list[Any] = [mean, line, trace]  # matplotlib's types forget containers
    figure.legend(handles, words, loc="outside lower center", ncols=3)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    told = data["predicted"].values
    found = data["speed"].values
    factor = float(found @ told / (told @ told))
    left = np.linalg.norm(found - factor * told) / np.linalg.norm(found)
    error = 5 * s.lr * float(data["sharpness"].max()) / 2
    return [
        Check("measured over predicted velocity", factor, 1 - error, 1 + error),
        Check("part of the velocity that does not fit", float(left), high=0.15),
    ]


DRIFT = Figure(
    id="zeroloss.1c",
    title="The cloud drifts towards a smaller trace",
    caption=(
        "Label-noise SGD on the ellipse, from places all around it: the mean velocity along the "
        "manifold in time $k\\,\\mathrm{lr}^2$ (points, with standard errors) against "
        r"$-\frac14\delta^2\nabla_T\mathrm{tr}H$ (black line), which is predicted without a step. "
        "The dashed line is the trace itself: the cloud moves to where it is smaller and rests at "
        "its minima. The factor ¼ is seen: measured over predicted is one up to the size of the "
        "step. The loss is zero everywhere on this curve, so that nothing but the noise makes the "
        "motion."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"angle": 0.7, "std": 1.0, "lr": 0.01, "places": 20, "copies": 300, "steps": 2000},
    full={"lr": 0.005, "copies": 2000, "steps": 8000},
    height=0.85,
)
