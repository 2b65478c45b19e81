"""The k-phase motor, Lemma C.8: noise that turns a point for ever."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...nets import Net
from ...noise import ParameterNoise
from ...numerics.counter_rng import normal
from ...numerics.host_rng import generator
from ...numerics.types import Integer, PyTree
from ...plot import BLACK, COLOURS, GREY
from ...problems import Motor, Problem
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._copies import descent

MARKS = ("o", "s", "^")


class MotorNoise(ParameterNoise):
    """The motor's own noise, for every copy."""

    motor: Motor

    def draw(self, key: Integer, params: PyTree) -> PyTree:
        x = jnp.asarray(params["x"])
        # Off the circle a variance can fall below zero, by as little as SGD is off it.
        variances = jnp.maximum(jax.vmap(self.motor.variances)(x), 0.0)
        return {"x": jnp.sqrt(variances) * normal(key, x.shape)}

    def factor(self, problem: Problem, net: Net, params: PyTree) -> np.ndarray:
        variances = [self.motor.variances(x) for x in np.asarray(params["x"])]
        return np.diag(np.sqrt(np.concatenate(variances)))


def motor(s: Settings, D: int) -> tuple[Motor, np.ndarray]:
    """The motor with its phases turned at random, and a place on its circle."""
    turn, phi = generator(s.key, "figures.motor").uniform(-np.pi, np.pi, 2)
    made = Motor(D, (np.cos(turn), np.sin(turn)))
    return made, made.point(float(phi))


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    saves = np.linspace(0, s.time / s.lr**2, s.saves).astype(int)
    angles = []
    for D in s.sizes:
        made, x = motor(s, D)
        start = np.tile(x, (s.copies, 1))
        run = lab.simulate(descent(made, start, MotorNoise(made), s.lr, saves, s.key))
        places = run.data["x"].values
        turned = np.unwrap(np.arctan2(places[..., 1], places[..., 0]), axis=0)
        angles.append(turned - turned[:1])
    return xr.Dataset(
        {
            "angle": (("D", "time", "copy"), np.stack(angles)),
            "speed": ("D", [motor(s, D)[0].speed for D in s.sizes]),
        },
        {"D": list(s.sizes), "time": saves * s.lr**2},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    times = data["time"].values
    for number, D in enumerate(s.sizes):
        one = data.sel(D=D)
        colour = COLOURS[number]
        ax.plot(times, one["angle"].values[:, :3], color=colour, lw=0.4, alpha=0.5)
        mean = one["angle"].mean("copy").values
        kind = {"markevery": len(times) // 8, "mfc": "none", "color": colour}
        ax.plot(times, mean, MARKS[number % 3], label=f"SGD, $D$ = {D}", **kind)
        ax.plot(times, float(one["speed"]) * times, color=BLACK, lw=1)
    printed = 4 * float(data["speed"][0]) * times
    top = 1.15 * float(data["speed"].max()) * times[-1]
    ax.plot(times, printed, ":", color=GREY, label=f"$(D-2)/2$, $D$ = {s.sizes[0]}")
    ax.plot([], [], color=BLACK, label="$(D-2)/8$")
    ax.set(xlabel="time $k$ lr²", ylabel="angle (radians)", ylim=(-0.5, top))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    found: list[Check] = []
    last = float(data["time"][-1])
    for D in s.sizes:
        turned = data["angle"].sel(D=D).values[-1] / last / float(data["speed"].sel(D=D))
        error = 1.5 * s.lr + 4 * turned.std(ddof=1) / np.sqrt(len(turned))
        low = float(1 - error)
        high = float(1 + error)
        found.append(Check(f"D = {D}: speed over (D − 2)/8", float(turned.mean()), low, high))
    rounds = float(data["angle"].mean("copy").values[-1].max() / (2 * np.pi))
    halves = data["angle"].mean("copy").values
    middle = halves.shape[1] // 2
    even = (halves[:, -1] - halves[:, middle]) / halves[:, middle]
    return [
        *found,
        Check("second half of the way over the first, least", float(even.min()), 0.85, 1.15),
        Check("rounds of the fastest", rounds, low=0.5),
    ]


MOTOR = Figure(
    id="zeroloss.motor",
    title="Noise across a circle of minima turns like a motor",
    caption=(
        "A loss that is zero and equally sharp in its sum all around a circle, with noise only "
        r"across it (Lemma C.8). SGD turns for ever, so that no potential can describe it. "
        "Markers: mean angle of many runs over time $k\\,\\mathrm{lr}^2$ for three numbers of "
        "coordinates; thin lines: single runs; black: the limit. As we read the lemma, the "
        r"angular speed is $(D-2)/2$ (dotted); from the limiting diffusion it is $(D-2)/8$. "
        "Measured, it is the latter, a few percent faster because steps are finite."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"sizes": (5, 6, 8), "lr": 0.05, "time": 8.0, "copies": 200, "saves": 81},
    full={"lr": 0.0125, "copies": 1000},
    default=True,
    height=0.9,
)
