"""Figure 1b: the cloud that label noise makes across the manifold."""

import numpy as np
import xarray as xr

from ...noise import LabelNoise
from ...plot import BLACK, BLUE
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._copies import descent
from ._ellipse import CURVE, angle, frame, ground, sharpness


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    phi = angle(s)
    x = CURVE.point(phi)
    along, across = frame(phi)
    steps = int(s.times / (s.lr * float(sharpness(phi))))  # the cloud forms in time 1/(lr·λ)
    start = np.tile(x, (s.copies, 1))
    setup = descent(CURVE, start, LabelNoise(s.std), s.lr, np.array([steps]), s.key)
    end = lab.simulate(setup).data["x"].values[-1] - x
    parts = {"across": ("copy", end @ across), "along": ("copy", end @ along)}
    return xr.Dataset({**parts, "sharpness": float(sharpness(phi)), "steps": steps})


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
    phi = angle(s)
    width = s.std * np.sqrt(s.lr / 2)
    x = CURVE.point(phi)
    along, across = frame(phi)
    cloud = x + data["across"].values[:, None] * across + data["along"].values[:, None] * along
    ground(left, phi, 5 * width)
    left.plot(*cloud.T, ".", color=BLUE, ms=1.5, alpha=0.3)
    for sides in (-2, 2):
        left.plot(*(x + sides * width * across), "o", mfc="none", mec=BLACK, zorder=3)
    left.set_title("SGD after the cloud has formed")
    grid = np.linspace(-4, 4, 200)
    kind = {"bins": 40, "range": (-4, 4), "density": True, "color": BLUE, "alpha": 0.6}
    right.hist(data["across"].values / width, **kind)
    right.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color=BLACK)
    right.set(xlabel=r"distance across over $\delta\sqrt{\mathrm{lr}/2}$", ylabel="density")


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    across = data["across"].values
    along = data["along"].values
    predicted = s.std**2 * s.lr / 2
    error = 4 * np.sqrt(2 / len(across)) + s.lr * float(data["sharpness"])
    ratio = float(across.var() / predicted)
    return [
        Check("variance across over δ²·lr/2", ratio, float(1 - error), float(1 + error)),
        Check("spread along over spread across", float(along.std() / across.std()), high=0.3),
    ]


CLOUD = Figure(
    id="zeroloss.1b",
    title="Label noise makes a round cloud across the manifold",
    caption=(
        "Label-noise SGD from one point of the ellipse, many copies, after the time in which "
        "distances across the manifold are forgotten. Predicted, because the noise covariance is "
        r"$\Sigma = \delta^2H$: a Gaussian across the manifold of variance "
        r"$\delta^2\mathrm{lr}/2$ whatever the sharpness (black line; rings at two standard "
        "deviations), and no spread along it. As we read the text, the scale is √lr; measured, "
        "it is √(lr/2). Histogram and variance agree, up to the size of the step times the "
        "sharpness."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"angle": 0.7, "std": 1.0, "lr": 0.005, "copies": 4000, "times": 8.0},
    full={"lr": 0.001, "copies": 40000},
    wide=True,
)
