"""The bias atlas: one data set, one scale axis, every potential of the five papers."""

import numpy as np
import scipy.optimize
import xarray as xr

from ... import theory
from ..._engine.setup import Setup, Until
from ...dynamics import Flow
from ...init import balanced, constant, orthogonal, perturb
from ...nets import Diagonal, Net, Rank1, TwoLayer
from ...numerics.host_rng import generator
from ...plot import BLUE, GREEN, GREY, ORANGE, PURPLE, YELLOW
from ...problems import Regression, sparse
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

# Label → (colour, line, marker). Rank-1 nets of L layers are nets of 2L − 1 factors.
LOOKS = {
    "3 factors": (BLUE, "-", "o"),
    "9 factors": (GREEN, "--", "s"),
    "3 factors, Δ = 1": (YELLOW, "-.", "D"),
    "diagonal": (ORANGE, "-", "^"),
    "two layers, orthogonal": (PURPLE, ":", "v"),
}
FACTORS = {"3 factors": 2, "9 factors": 5, "3 factors, Δ = 1": 2}
SHIFT = 1.0


def problem(s: Settings) -> Regression:
    """Few equations, a sparse truth."""
    return sparse(s.n, s.d, s.nonzero, entries="gaussian", key=s.key)


def direction(s: Settings) -> np.ndarray:
    """Of every start, so that only the scale differs."""
    vector = generator(s.key, "figures.atlas").standard_normal(s.d)
    return vector / np.linalg.norm(vector)


def start(s: Settings, label: str, scale: float) -> tuple[Net, dict[str, np.ndarray]]:
    """The net and its parameters at one scale of the start."""
    if label == "diagonal":
        return (net := Diagonal(s.d)), constant(net, scale)
    if label == "two layers, orthogonal":
        return (net := TwoLayer(s.d, 1, s.d)), orthogonal(net, scale)
    net = Rank1(s.d, FACTORS[label], 2)
    params = balanced(net, scale * direction(s))
    return net, perturb(net, params, SHIFT) if label.endswith("1") else params


def predicted(s: Settings, label: str, scale: float) -> np.ndarray:
    """The end point by the potential of that net."""
    data = problem(s)
    _, params = start(s, label, scale)
    if label == "diagonal":
        return theory.diagonal_limit(data, params).theta
    if label == "two layers, orthogonal":
        return np.ravel(theory.spectral_limit(data, scale).theta)
    return np.ravel(theory.rank1_limit(data, params).theta)


def least_l1(data: Regression) -> np.ndarray:
    """The interpolator of least ℓ1 norm, by linear programming."""
    X = np.asarray(data.X)
    y = np.ravel(data.Y)
    found = scipy.optimize.linprog(np.ones(2 * data.d), A_eq=np.hstack([X, -X]), b_eq=y)
    if not found.success:
        raise ArithmeticError(f"the linear program did not end: {found.message}")
    return found.x[: data.d] - found.x[data.d :]


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    data = problem(s)
    labels = list(LOOKS)
    scales = np.geomspace(*s.scales)
    told = np.array([[predicted(s, label, scale) for scale in scales] for label in labels])
    dots = np.geomspace(*s.dots)
    ends = []
    for label in labels:

        def build(scale: float, label: str = label) -> Setup:
            net, params = start(s, label, scale)
            return Setup(data, net, params, Flow(), Until(gap=1e-24, time=s.time), save_at=[0.0])

        run = lab.sweep(build, {"scale": dots})
        ends.append(run["theta_end"].values.reshape(len(dots), -1))
    ends = np.array(ends)
    at = np.array([[predicted(s, label, scale) for scale in dots] for label in labels])
    return xr.Dataset(
        {
            "predicted": (("net", "scale", "entry"), told),
            "end": (("net", "dot", "entry"), ends),
            "predicted_dot": (("net", "dot", "entry"), at),
            "least_l2": ("entry", np.ravel(data.min_norm)),
            "least_l1": ("entry", least_l1(data)),
        },
        {"net": labels, "scale": scales, "dot": dots},
    )


def away(ends: xr.DataArray, point: xr.DataArray) -> xr.DataArray:
    """Distance to a point, in units of its norm."""
    squares = ((ends - point) ** 2).sum("entry")
    return xr.apply_ufunc(np.sqrt, squares) / np.sqrt((point**2).sum())


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    titles = {"least_l2": r"least $\ell_2$ (and nuclear) norm", "least_l1": r"least $\ell_1$ norm"}
    for ax, (name, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for net, (colour, line, marker) in LOOKS.items():
            one = data.sel(net=net)
            ax.loglog(one["scale"], away(one["predicted"], data[name]), line, color=colour)
            ax.loglog(one["dot"], away(one["end"], data[name]), marker, color=colour, mfc="none")
        apart = float(away(data["least_l1"], data[name]) + away(data["least_l2"], data[name]))
        ax.axhline(apart, color=GREY, lw=0.7, zorder=0)
        other = r"$\ell_1$" if name == "least_l2" else r"$\ell_2$"
        ax.annotate(
            f"least {other}",
            (data["scale"].values[0], apart),
            (0, 3),
            textcoords="offset points",
            color="#555555",
            fontsize="small",
        )
        ax.set(title=f"distance to {title}", xlabel="scale of the start", ylim=s.ylim)
    figure.axes[0].set_ylabel("relative distance of the limit")
    handles = [
        figure.axes[0].plot([], [], line, color=colour, marker=marker, mfc="none", label=net)[0]
        for net, (colour, line, marker) in LOOKS.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    error = np.abs(data["end"] - data["predicted_dot"]).max() / np.abs(data["least_l2"]).max()
    to_l2 = away(data["predicted"], data["least_l2"])
    to_l1 = away(data["predicted"], data["least_l1"])
    small, large = to_l1.sel(net="diagonal").values[[0, -1]]
    three = to_l2.sel(net="3 factors").values
    deeper = to_l2.sel(net="9 factors").values / three
    shifted = to_l2.sel(net="3 factors, Δ = 1").values / three
    return [
        Check("largest error of a predicted end point", float(error), high=1e-7),
        Check("diagonal, smallest start: distance to least ℓ1", float(small), high=0.05),
        Check("diagonal, largest start: distance to least ℓ1", float(large), low=0.2),
        Check(
            "diagonal, largest start: distance to least ℓ2",
            float(to_l2.sel(net="diagonal")[-1]),
            high=0.05,
        ),
        Check(
            "two layers: largest distance to least ℓ2",
            float(to_l2.sel(net="two layers, orthogonal").max()),
            high=1e-10,
        ),
        Check("9 ÷ 3 factors, smallest start: distance to least ℓ2", float(deeper[0]), low=2.0),
        Check("9 ÷ 3 factors, largest start: distance to least ℓ2", float(deeper[-1]), high=1.0),
        Check("Δ = 1 ÷ 0, smallest start: distance to least ℓ2", float(shifted[0]), high=0.9),
        Check("Δ = 1 ÷ 0, largest start: distance to least ℓ2", float(shifted[-1]), low=1.05),
    ]


ATLAS = Figure(
    id="bias_atlas",
    title="The bias atlas: every potential on one axis",
    caption=(
        "One data set (fewer equations than unknowns, a sparse truth), one direction of the start, "
        "one axis for its scale. Lines are the end points that the potentials predict, marks are "
        "simulated gradient flows. Nets of 3 and 9 factors leave the solution "
        r"of least $\ell_2$ norm as the start grows; depth makes the climb flatter, farther from "
        r"small starts and nearer from large ones, an imbalance $\Delta = 1$ steeper. "
        r"The diagonal net goes the other way: least $\ell_1$ from a small start, least $\ell_2$ "
        r"from a large one. Two layers from an orthogonal start end at least $\ell_2$ for every "
        r"$\gamma$, which in regression is the least nuclear norm as well; there $\gamma$ shapes "
        "the layers alone."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "n": 12,
        "d": 24,
        "nonzero": 2,
        "scales": (1e-3, 10.0, 41),
        "dots": (1e-2, 4.0, 4),
        "time": 1e5,
        "ylim": (1e-3, 20.0),
    },
    full={"n": 40, "d": 100, "nonzero": 6},
    wide=True,
    height=0.85,
)
