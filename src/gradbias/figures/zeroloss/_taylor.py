"""Figure 1a: the gradient near the manifold, across and along it."""

import numpy as np
import xarray as xr

from ...plot import BLACK, BLUE
from ...theory import manifold
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._ellipse import CURVE, angle, frame, gradients, ground, sharpness


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    phi = angle(s)
    x = CURVE.point(phi)
    along, across = frame(phi)
    offset = np.linspace(-s.width, s.width, 41)
    pull = -gradients(x + offset[:, None] * across)
    bend = manifold.third_derivative(x, np.outer(across, across), residual=CURVE.residual)
    return xr.Dataset(
        {
            "normal": ("offset", pull @ across),
            "tangent": ("offset", pull @ along),
            "linear": ("offset", -float(sharpness(phi)) * offset),
            "quadratic": ("offset", -0.5 * float(bend @ along) * offset**2),
        },
        {"offset": offset},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, middle, right = figure.subplots(1, 3)
    phi = angle(s)
    offset = data["offset"].values
    x = CURVE.point(phi)
    along, across = frame(phi)
    ground(left, phi, 1.6 * s.width)
    shown = data.isel(offset=slice(0, None, 10))
    at = x + shown["offset"].values[:, None] * across
    pull = shown["normal"].values[:, None] * across + shown["tangent"].values[:, None] * along
    longest = float(np.abs(shown["normal"]).max())
    kind = {"angles": "xy", "scale_units": "xy", "scale": longest / (0.5 * s.width)}
    left.quiver(*at.T, *pull.T, color=BLUE, width=0.015, zorder=3, **kind)
    left.set_title(r"$-\nabla L$ across the manifold")
    for ax, part, told, title in (
        (middle, "normal", "linear", "part across: pulls back"),
        (right, "tangent", "quadratic", "part along: never turns"),
    ):
        ax.plot(offset, data[part].values, color=BLUE, lw=2, label="gradient")
        ax.plot(offset, data[told].values, "--", color=BLACK, label="Taylor, at the point")
        ax.set(xlabel=r"distance $\Delta$ from the manifold", title=title)
    middle.set_ylabel(r"part of $-\nabla L$")
    handles, words = right.get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=2)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    near = np.abs(data["offset"].values) <= s.width / 4
    off = np.abs(data["offset"].values) > 0
    parts = {name: data[name].values for name in data.data_vars}
    use = near & off
    across = np.polyfit(parts["linear"][use], parts["normal"][use], 1)[0]
    # Twice the even part: what is left of noise that is as often on one side as on the other.
    even = parts["tangent"] + parts["tangent"][::-1]
    along = (even / (2 * parts["quadratic"] + ~off))[use]
    mixed = np.abs(parts["normal"] + parts["normal"][::-1]) / np.abs(2 * parts["linear"] + ~off)
    return [
        Check("slope across over −H", float(across), 0.95, 1.05),
        Check("even part along over −½T[Δ,Δ], least", float(along.min()), low=0.9),
        Check("even part along over −½T[Δ,Δ], largest", float(along.max()), high=1.1),
        Check("even over odd part across, largest", float(mixed[use].max()), high=0.5),
    ]


TAYLOR = Figure(
    id="zeroloss.1a",
    title="A step across the manifold also pulls along it",
    caption=(
        "An ellipse of minima, sharper in some places than in others. Left: the negative gradient "
        "on a line across it. Middle and right: its parts across and along the manifold (blue) "
        r"against the Taylor expansion at the point, $-H\Delta$ and $-\frac12\partial^2(\nabla L)"
        r"[\Delta,\Delta]$ (dashed). Across, the gradient pulls back and changes sign with "
        r"$\Delta$; along, its leading part is quadratic: noise that is as often on one side as "
        "on the other moves the point always the same way. Measured near the manifold, both parts "
        "agree with the expansion."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"angle": 0.7, "width": 0.2},
    wide=True,
)
