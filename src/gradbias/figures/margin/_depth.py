"""A deep linear net turns to its separator slower: (log t)^(−1/N)."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Flow
from ...nets import Deep
from ...observe import theta
from ...plot import BLUE, GREEN, ORANGE
from ...problems import Classification
from ...theory import margin
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._data import first_with

LOOKS = {1: (BLUE, "-", "o"), 2: (ORANGE, "--", "s"), 3: (GREEN, "-.", "^")}


def problem(s: Settings) -> Classification:
    """Data whose support vectors leave directions in which only the start decides."""

    def good(law: margin.Offset) -> bool:
        unequal = law.entropy_gap > s.unequal
        return bool(law.basis.shape[1] < s.d and law.exponent > s.least and unequal)

    return first_with(s, good)


def setup(s: Settings, known: Classification, layers: int) -> Setup:
    """Random layers, on the clock of the loss."""
    net = Deep([s.d, *[s.width] * (layers - 1), 1])
    rng = np.random.default_rng([s.key, layers])
    params = {n: s.std * rng.standard_normal(shape) for n, shape in (net.shapes() or {}).items()}
    saves = np.geomspace(s.first, s.log_time, s.saves)
    flow = Flow(clock="loss", rtol=1e-9)
    return Setup(known, net, params, flow, Until(log_time=s.log_time), {"theta": theta}, saves)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    known = problem(s)
    law = margin.offset(known)
    best = law.gamma * np.ravel(law.w_hat)
    whole = []
    inside = []
    for layers in LOOKS:
        run = lab.simulate(setup(s, known, layers))
        path = run.data["theta"].values.reshape(s.saves, s.d)
        whole.append(distance(path, best))
        inside.append(distance(path @ law.basis @ law.basis.T, best))
    return xr.Dataset(
        {"whole": (("layers", "log_time"), whole), "inside": (("layers", "log_time"), inside)},
        {"layers": list(LOOKS), "log_time": np.geomspace(s.first, s.log_time, s.saves)},
    )


def distance(path: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Of the direction to the separator."""
    return np.linalg.norm(path / np.linalg.norm(path, axis=1)[:, None] - best, axis=1)


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    x = data["log_time"].values
    late = x >= s.log_time / 10
    for layers, (color, style, marker) in LOOKS.items():
        name = "1 layer" if layers == 1 else f"{layers} layers"
        for ax, curves, power in ((left, "whole", 1 / layers), (right, "inside", 1.0)):
            y = data[curves].sel(layers=layers).values
            ax.loglog(x, y, style, color=color, marker=marker, markevery=8, ms=3.5, label=name)
            ax.loglog(x[late], 1.25 * y[-1] * (x[late] / x[-1]) ** -power, ":k", lw=1)
    left.plot([], [], ":k", lw=1, label="predicted slope")
    left.set_title(r"all of $w$: $(\log t)^{-1/N}$")
    right.set_title(r"in the span of the support: $1/\log t$")
    left.set_ylabel("distance to the best direction")
    for ax in (left, right):
        ax.set_xlabel("log t")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def slope(data: xr.Dataset, s: Settings, curves: str, layers: int) -> float:
    """Of a curve in the last third of a decade of log t."""
    late = data[curves].sel(layers=layers, log_time=slice(s.log_time / 2.2, None))
    return float(np.polyfit(np.log(late["log_time"]), np.log(late), 1)[0])


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    checks = []
    for layers in LOOKS:
        power = slope(data, s, "whole", layers)
        what = f"{layers} layers: slope of the distance"
        checks.append(Check(what, power, -1 / layers - 0.03, -1 / layers + 0.03))
        inside = slope(data, s, "inside", layers)
        checks.append(Check(f"{layers} layers: slope in the span", inside, -1.03, -0.97))
    return checks


DEPTH = Figure(
    id="margin.depth",
    title="Depth slows the turn to the separator",
    caption=(
        "Linear nets of $N$ layers on the same data, by gradient flow on the clock of their loss, "
        "to $t = e^{1000}$. Lines are simulated: the distance between the direction of $w$ and "
        "that of the largest margin. Dotted lines have the predicted slope. Left: what the first "
        "layer has outside the span of the support vectors stays, the later layers enlarge it by "
        "$\\|w\\|^{1-1/N}$, and so the direction comes only as $(\\log t)^{-1/N}$. Right: within "
        "that span it comes as $1/\\log t$ at every depth."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "n": 7,
        "d": 4,
        "least": 0.2,
        "unequal": 0.05,
        "width": 4,
        "std": 0.7,
        "first": 5.0,
        "log_time": 1000.0,
        "saves": 80,
    },
    wide=True,
)
