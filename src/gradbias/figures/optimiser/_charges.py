"""Every geometry conserves its own power of the factors, and moves the others."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Steepest
from ...geometry import L2, GeometryLike, Linf, Lp
from ...nets import TwoLayer
from ...numerics.host_rng import generator
from ...observe import charges
from ...plot import BLUE, GREEN, ORANGE
from ...problems import Regression
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

# Title → geometry and its power q, 1/p + 1/q = 1.
GEOMETRIES: dict[str, tuple[GeometryLike, float]] = {
    "sign descent": (Linf, 1.0),
    "steepest in ℓ3": (Lp(3), 1.5),
    "gradient descent": (L2, 2.0),
}
LOOKS = {1.0: (ORANGE, "-"), 1.5: (GREEN, "--"), 2.0: (BLUE, "-.")}


def problem(s: Settings) -> Regression:
    """One input, one output, a slope that eight products have to make together."""
    rng = generator(s.key, "figures.optimiser charges")
    x = rng.standard_normal((s.n, 1))
    return Regression.half_mean(x, s.slope * x + 0.1 * rng.standard_normal((s.n, 1)))


def setup(s: Settings, geometry: GeometryLike) -> Setup:
    """Unit steps, from the same factors for all."""
    net = TwoLayer(1, 1, s.width)
    rng = generator(s.key, "figures.optimiser factors")
    params = {n: rng.uniform(0.5, 1, shape) for n, shape in (net.shapes() or {}).items()}
    record = {f"q{q:g}": charges(power=q) for q in LOOKS}
    saves = np.arange(0, s.steps + 1, s.every)
    moves = Steepest(s.lr, geometry)
    return Setup(problem(s), net, params, moves, Until(steps=s.steps), record, saves)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    steps = np.arange(0, s.steps + 1, s.every)
    moved = []
    for geometry, _ in GEOMETRIES.values():
        data = lab.simulate(setup(s, geometry)).data
        values = [data[f"q{q:g}_W1-W2"].values.reshape(len(steps), -1) for q in LOOKS]
        moved.append([np.abs(C - C[0]).max(axis=1) / np.abs(C[0]).max() for C in values])
    return xr.Dataset(
        {"moved": (("geometry", "power", "step"), moved)},
        {"geometry": list(GEOMETRIES), "power": list(LOOKS), "step": steps},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    axes = figure.subplots(1, len(GEOMETRIES), sharey=True, squeeze=False)[0]
    for ax, name in zip(axes, GEOMETRIES, strict=True):
        for q, (color, style) in LOOKS.items():
            curve = data["moved"].sel(geometry=name, power=q).values[1:]
            power = "" if q == 1 else f"^{{{q:g}}}"
            label = f"$|u|{power}-|v|{power}$"
            ax.semilogy(data["step"].values[1:], np.maximum(curve, 1e-17), style, color=color)
            ax.plot([], [], style, color=color, label=label)
        ax.set_title(name)
        ax.set_xlabel("step")
        ax.set_ylim(3e-18, 1)
    axes[0].set_ylabel("relative change")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    checks = []
    for name, (_, q) in GEOMETRIES.items():
        last = data["moved"].sel(geometry=name).isel(step=-1)
        own = float(last.sel(power=q))
        others = float(last.drop_sel(power=[q]).min())
        exact = q == 1.0
        limit = 1e-12 if exact else 1e-3
        checks.append(Check(f"{name}: change of its own charge", own, high=limit))
        checks.append(Check(f"{name}: least change of another", others, low=1e-2))
    return checks


CHARGES = Figure(
    id="optimiser.1",
    title="Every geometry conserves a charge of its own",
    caption=(
        "Eight products $u\\,v$ of two scalars fit a slope together, from the same start, by unit "
        "steps in three norms. Steepest descent in $\\ell_p$ conserves $|u|^q-|v|^q$ with "
        "$1/p+1/q=1$: sign descent $|u|-|v|$, steps in $\\ell_3$ the power $3/2$, gradient descent "
        "the squares. Curves are the largest change of a charge over the largest charge at the "
        "start. In each panel the geometry's own charge stays, for sign descent to rounding and "
        "otherwise up to the size of a step, and the two others move by several percent."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"n": 9, "slope": 6.0, "width": 8, "steps": 400, "every": 10, "lr": 5e-4},
    wide=True,
)
