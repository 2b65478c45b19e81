"""Isotropic noise, Corollary 5.1: a diffusion on the manifold that prefers flat places."""

from typing import Any

import numpy as np
import xarray as xr

from ...noise import Isotropic
from ...numerics.host_rng import generator
from ...plot import BLACK, GREY, ORANGE, SKY
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._copies import descent
from ._ellipse import CURVE, sharpness

POWERS = (0.5, 1.0, 0.0)  # the density |H|^−power: predicted, of twice the drift, and none


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    steps = round(s.time / s.lr**2)
    saves = np.linspace(steps // 2, steps, s.saves).astype(int)
    phi = generator(s.key, "figures.isotropic").uniform(-np.pi, np.pi, s.copies)
    setup = descent(CURVE, CURVE.point(phi), Isotropic(1.0), s.lr, saves, s.key)
    x = lab.simulate(setup).data["x"].values
    angles = np.arctan2(x[..., 1] / CURVE.b, x[..., 0] / CURVE.a).ravel()
    edges = np.linspace(-np.pi, np.pi, s.bins + 1)
    count = np.histogram(angles, edges)[0]
    masses = np.stack([_masses(edges, power) for power in POWERS])
    return xr.Dataset(
        {
            "mass": ("bin", count / count.sum()),
            "predicted": (("power", "bin"), masses),
        },
        {"power": list(POWERS), "bin": (edges[1:] + edges[:-1]) / 2},
    )


def _masses(edges: np.ndarray, power: float, fine: int = 40) -> np.ndarray:
    """Of |H|^−power with respect to length, in every bin of the angle."""
    inner = np.linspace(edges[0], edges[-1], fine * (len(edges) - 1) + 1)
    phi = (inner[1:] + inner[:-1]) / 2
    length = np.hypot(CURVE.a * np.sin(phi), CURVE.b * np.cos(phi))
    mass = (length * sharpness(phi) ** -power).reshape(-1, fine).sum(axis=1)
    return mass / mass.sum()


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    phi = data["bin"].values
    width = 2 * np.pi / s.bins
    bars = ax.bar(phi, data["mass"].values / width, width, color=SKY, alpha=0.7, ec="white", lw=0.3)
    kinds = ((BLACK, "-"), (ORANGE, "--"), (GREY, ":"))
    lines = [
        ax.plot(phi, data["predicted"].sel(power=power).values / width, kind, color=colour)[0]
        for power, (colour, kind) in zip(POWERS, kinds, strict=True)
    ]
    ax.set(xlabel="angle on the ellipse (radians)", ylabel="density")
    words = ["SGD", r"$|H|_+^{-1/2}$", r"$|H|_+^{-1}$", "uniform"]
    handles: list[Any] = [bars, *lines]  # matplotlib's types forget containers
    figure.legend(handles, words, loc="outside lower center", ncols=4)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    away = {
        power: 0.5 * float(np.abs(data["mass"] - data["predicted"].sel(power=power)).sum())
        for power in POWERS
    }
    return [
        Check("total variation to |H|^−1/2", away[0.5], high=0.05),
        Check("total variation to |H|^−1", away[1.0], low=0.1),
        Check("total variation to uniform", away[0.0], low=0.1),
    ]


ISOTROPIC = Figure(
    id="zeroloss.isotropic",
    title="Isotropic noise: flat places are visited more",
    caption=(
        "SGD with the same Gaussian noise in every direction on the ellipse of minima: where its "
        "copies are after they have forgotten their start (bars). The limit is Brownian motion "
        r"along the manifold with a drift $-\frac14\nabla_T\ln|H|_+$, where $|H|_+$ is the product "
        "of the non-zero eigenvalues; its stationary density with respect to length is "
        r"$|H|_+^{-1/2}$ (black). The coefficient is not legible in the text that we had of "
        "Corollary 5.1; twice the drift would give the dashed line. Measured, the bars follow the "
        "black one; they are neither dashed nor uniform."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"lr": 0.05, "time": 40.0, "copies": 1500, "saves": 9, "bins": 24},
    full={"lr": 0.025, "copies": 6000, "bins": 48},
    height=0.85,
)
