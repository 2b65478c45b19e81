"""The picture that explains the field: one line of minima, one start, five end points."""

import numpy as np
import xarray as xr

from ... import theory
from ..._engine.setup import Setup, Until
from ...dynamics import Flow
from ...init import balanced
from ...nets import Deep, Diagonal, Net
from ...plot import plane
from ...problems import Regression
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

SAVES = 400


def nets(s: Settings) -> dict[str, tuple[str, float]]:
    """Label → (kind, its number: layers, or α)."""
    deep = {("linear model" if N == 1 else f"deep, {N} layers"): ("deep", N) for N in s.depths}
    return {**deep, **{f"diagonal, α = {a:g}": ("diagonal", a) for a in s.alphas}}


def problem(s: Settings) -> Regression:
    """One equation for two unknowns."""
    return Regression.half_sum([list(s.x)], [s.y])


def start(s: Settings) -> np.ndarray:
    """The common start; another key moves it a little."""
    shift = np.random.default_rng(s.key).normal(size=2) if s.key else np.zeros(2)
    return np.asarray(s.theta0) + 0.02 * shift


def pair(theta0: np.ndarray, alpha: float) -> dict[str, np.ndarray]:
    """The parameters with u² − v² = θ₀ and uv = α² in every coordinate."""
    half = np.arcsinh(theta0 / (2 * alpha**2)) / 2
    return {"u": alpha * np.exp(half), "v": alpha * np.exp(-half)}


def setup(s: Settings, kind: str, number: float) -> Setup:
    """The flow of one net from the common start."""
    if kind == "deep":
        net: Net = Deep([2] * int(number) + [1])
        params = balanced(net, start(s))
    else:
        net = Diagonal(2)
        params = pair(start(s), number)
    save_at = np.concatenate([[0.0], np.geomspace(1e-3, s.time, SAVES)])
    return Setup(problem(s), net, params, Flow(), Until(gap=1e-26, time=s.time), None, save_at)


def predicted(s: Settings, kind: str, number: float) -> np.ndarray:
    """The end point from the theorem, without a step."""
    if kind == "deep":
        return np.ravel(theory.balanced_limit(problem(s), start(s), int(number)).theta)
    at = pair(start(s), number)
    return np.ravel(theory.diagonal_limit(problem(s), at).theta)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    chosen = nets(s)
    runs = [lab.simulate(setup(s, *net)) for net in chosen.values()]
    return xr.Dataset(
        {
            "path": (("net", "save", "entry"), [run.data["theta"].values for run in runs]),
            "end": (("net", "entry"), [np.ravel(np.asarray(run.theta)) for run in runs]),
            "predicted": (("net", "entry"), [predicted(s, *net) for net in chosen.values()]),
        },
        {"net": list(chosen)},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    paths = {str(net): data["path"].sel(net=net).values for net in data["net"].values}
    rings = {net: data["predicted"].sel(net=net).values for net in paths}
    plane(paths, ax=ax, predicted=rings, problem=problem(s), xlim=s.xlim, ylim=s.ylim)
    x, y = start(s)
    ax.annotate("start", (x, y), (4, -9), textcoords="offset points")
    ax.annotate(
        "every point of the line\nhas zero loss",
        s.note,
        color="#555555",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )
    ax.plot([], [], "o", mfc="none", mec="black", label="predicted end")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center")


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    ends = data["end"].values
    error = np.abs(ends - data["predicted"].values).max()
    apart = min(np.linalg.norm(ends[i] - ends[j]) for i in range(len(ends)) for j in range(i))
    misfit = np.abs(ends @ np.asarray(s.x) - s.y).max()
    return [
        Check("largest distance of a path's end to its ring", float(error), high=1e-8),
        Check("misfit of the worst end point", float(misfit), high=1e-8),
        Check("least distance between two of the end points", float(apart), low=0.1),
    ]


WHICH_MINIMUM = Figure(
    id="which_minimum",
    title="One start, one line of minima, five answers",
    caption=(
        "Two parameters and one equation: every point of the grey line has zero loss. Gradient "
        "flow starts five models at the same predictor (black dot). Lines are simulated paths, "
        "rings the end points that the theorems predict without a step: the orthogonal projection "
        "for the linear model, the root of one scalar equation for deep nets, the minimiser of a "
        "hyperbolic entropy for diagonal nets, which tends to the sparse solution as α falls. "
        "Loss, data, start and optimiser are the same; the parametrisation alone decides which "
        "minimum is reached."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "x": (1.0, 2.0),
        "y": 2.0,
        "theta0": (0.3, -0.2),
        "depths": (1, 3, 9),
        "alphas": (0.03, 0.4),
        "time": 2000.0,
        "xlim": (-0.1, 2.3),
        "ylim": (-0.35, 0.95),
        "note": (1.25, 0.62),
    },
    default=True,
    wide=True,
    height=1.0,
)
