"""Five optimisers on the same data, five separators."""

import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

from ..._engine.setup import Setup, Until
from ...dynamics import Adam, Optimiser, Steepest
from ...geometry import L1, L2, Geometry, Linf, Lp
from ...nets import Deep
from ...observe import theta
from ...plot import COLOURS
from ...problems import Classification
from .._figure import Axes, Canvas, Check, Figure, Settings
from .._lab import Lab


def optimisers(s: Settings) -> dict[str, tuple[Optimiser, Geometry]]:
    """Label → (steps, the norm whose margin they should make largest)."""
    return {
        "coordinate descent": (Steepest(s.lr, L1), L1()),
        "gradient descent": (Steepest(s.lr, L2), L2()),
        "steepest in ℓ4": (Steepest(s.lr, Lp(4)), Lp(4)),
        "sign descent": (Steepest(s.lr, Linf), Linf()),
        "Adam": (Adam(s.lr, (0.9, 0.99), 0.0), Linf()),
    }


def problem(s: Settings) -> Classification:
    """Eight samples; another key moves them a little."""
    rng = np.random.default_rng(s.key)
    Z = np.column_stack([s.across, s.up]) + (0.01 * rng.standard_normal((8, 2)) if s.key else 0.0)
    y = np.where(np.arange(len(Z)) % 2 == 0, 1, -1)
    return Classification(y[:, None] * Z, y, "exponential")


def setup(s: Settings, moves: Optimiser) -> Setup:
    """A linear predictor from zero."""
    saves = np.unique(np.geomspace(1, s.steps, s.saves).astype(int))
    start = {"W1": np.zeros((2, 1))}
    return Setup(problem(s), Deep([2, 1]), start, moves, Until(steps=s.steps), [theta], saves)


def predicted(s: Settings, norm: Geometry) -> float:
    """The angle of the separator: from an exact solver, or one angle after the other."""
    data = problem(s)
    if not isinstance(norm, Lp):
        return angle(np.asarray(data.max_margin(norm).w))

    def margin(turn: float) -> float:
        w = np.array([np.cos(turn), np.sin(turn)])
        return float((data.constraints @ w).min() / norm.norm(w))

    grid = np.linspace(0, np.pi / 2, 91)
    best = grid[np.argmax([margin(turn) for turn in grid])]
    near = (best - 0.02, best + 0.02)
    found = minimize_scalar(lambda t: -margin(t), bounds=near, options={"xatol": 1e-9})
    return float(np.degrees(np.asarray(found.x)))


def angle(w: np.ndarray) -> float:
    """In degrees."""
    return float(np.degrees(np.arctan2(w[..., 1], w[..., 0])))


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    chosen = optimisers(s)
    runs = [lab.simulate(setup(s, moves)) for moves, _ in chosen.values()]
    paths = np.array([run.data["theta"].values.reshape(-1, 2) for run in runs])
    Z = problem(s).constraints
    sizes = [[float(norm.norm(w)) for _, norm in chosen.values()] for w in paths[:, -1]]
    return xr.Dataset(
        {
            "angle": (("optimiser", "step"), np.degrees(np.arctan2(paths[..., 1], paths[..., 0]))),
            "predicted": ("optimiser", [predicted(s, norm) for _, norm in chosen.values()]),
            "margin": (("optimiser", "norm"), (paths[:, -1] @ Z.T).min(axis=1)[:, None] / sizes),
        },
        {"optimiser": list(chosen), "step": setup(s, Adam(s.lr)).save_at, "norm": list(chosen)},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.5])
    draw_plane(left, data, s)
    for colour, name in zip(COLOURS, data["optimiser"].values, strict=False):
        one = data.sel(optimiser=name)
        style = "--" if name == "Adam" else "-"
        right.plot(data["step"], one["angle"], style, color=colour, label=str(name))
        right.plot(s.steps, float(one["predicted"]), "o", mfc="none", mec=colour, ms=9, zorder=5)
    right.plot([], [], "o", mfc="none", mec="black", label="predicted")
    right.set(xscale="log", xlabel="steps", ylabel="angle of w in degrees")
    figure.legend(*right.get_legend_handles_labels(), loc="outside right center")


def draw_plane(ax: Axes, data: xr.Dataset, s: Settings) -> None:
    """Samples, and where each of the predictors changes its sign."""
    known = problem(s)
    for sign, marker in ((1, "+"), (-1, "_")):
        X = known.X[sign == known.Y]
        ax.plot(X[:, 0], X[:, 1], marker, color="black", ms=8)
    reach = np.array([-1.0, 1.0]) * 1.3 * np.abs(known.X).max()
    for colour, name in zip(COLOURS, data["optimiser"].values, strict=False):
        turn = np.radians(float(data["angle"].sel(optimiser=name)[-1]))
        style = "--" if name == "Adam" else "-"
        ax.plot(-np.sin(turn) * reach, np.cos(turn) * reach, style, color=colour)
    top = 1.15 * np.abs(known.X).max()
    ax.set(xlim=(-top, top), ylim=(-top, top), xlabel="x₁", ylabel="x₂", aspect="equal")


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    ends = data["angle"].values[:, -1]
    told = data["predicted"].values
    apart = np.abs(told[:4, None] - told[None, :4])[np.triu_indices(4, 1)]
    margins = data["margin"].values
    own = np.diagonal(margins) / margins.max(axis=0)
    return [
        Check("largest distance of an angle to its ring", float(np.abs(ends - told).max()), high=1),
        Check("least distance between rings of two norms", float(apart.min()), low=2),
        Check("margin in the own norm over the best of all five", float(own.min()), low=0.99),
        Check("gradient descent's over it in ℓ1", float(margins[1, 0] / margins[0, 0]), high=0.99),
    ]


FIVE_OPTIMISERS = Figure(
    id="margin.five",
    title="Five optimisers, five separators",
    caption=(
        "Eight samples of two classes, a linear predictor from zero, exponential loss. Left: where "
        "each predictor changes its sign at the end. Right: the angle of $w$ along the run; rings "
        "are predicted from the data alone, the separator of largest margin in the optimiser's own "
        r"norm: $\ell_1$ for coordinate descent, $\ell_2$ for gradient descent, $\ell_4$ for "
        r"steepest descent there, $\ell_\infty$ for sign descent and, dashed, for Adam with "
        r"$\epsilon = 0$. All of them fit all samples; the optimiser alone decides which line is "
        "found."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "across": (1.0, 0.35, 1.4, 0.6, 1.1, 1.6, 0.9, 0.7),
        "up": (0.2, 0.5, 0.9, 1.3, 1.2, 0.4, 0.8, 1.6),
        "lr": 0.02,
        "steps": 40_000,
        "saves": 120,
    },
    default=True,
    wide=True,
)
