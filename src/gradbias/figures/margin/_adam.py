"""Adam leaves its own norm: by its ε, and by batches of one sample."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Adam, Optimiser, Steepest
from ...geometry import L2, Linf
from ...nets import Deep
from ...noise import Replay
from ...observe import theta
from ...plot import BLUE, GREEN, ORANGE
from ...problems import Classification, separable
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

LOOKS = ((BLUE, "-", "o"), (ORANGE, "--", "s"), (GREEN, "-.", "^"))
BATCHES = ("Adam, all samples", "Adam, one sample", "signs with momentum, one sample")
NORMS = {"euclidean": L2, "largest": Linf}


def slowly(k: int) -> float:
    return 0.02 / (1 + k) ** 0.5


def faster(k: int) -> float:
    return 0.05 / (1 + k) ** 0.6


def signs(s: Settings) -> Classification:
    """Inputs of ±1: every sample gives all coordinates gradients of one size."""
    rng = np.random.default_rng(s.key)
    X = rng.choice([-1.0, 1.0], (s.few, s.inputs))
    return Classification(X, np.where(np.arange(s.few) % 2, -1, 1), "exponential")


def batches(s: Settings) -> list[Optimiser]:
    """One sample after the other, round and round."""
    cyclic = Replay(indices=np.arange(s.steps)[:, None] % s.few)
    return [
        Adam(faster, (0.9, 0.95), 0.0),
        Adam(faster, (0.9, 0.95), 0.0, noise=cyclic),
        Steepest(faster, Linf, noise=cyclic, momentum=0.99),
    ]


def saves(s: Settings) -> np.ndarray:
    return np.unique(np.geomspace(20, s.steps, s.saves).astype(int))


def path(s: Settings, lab: Lab, problem: Classification, moves: Optimiser) -> np.ndarray:
    """The predictor, at every save."""
    start = {"W1": np.zeros((problem.d, 1))}
    net = Deep([problem.d, 1])
    setup = Setup(problem, net, start, moves, Until(steps=s.steps), {"theta": theta}, saves(s))
    return lab.simulate(setup).data["theta"].values.reshape(-1, problem.d)


def ratios(problem: Classification, w: np.ndarray) -> list[np.ndarray]:
    """Margins over the largest, in ℓ2 and in ℓ∞."""
    least = (w @ problem.constraints.T).min(axis=-1)
    sizes = (np.linalg.norm(w, axis=-1), np.abs(w).max(axis=-1))
    best = [problem.max_margin(norm).gamma for norm in NORMS.values()]
    return [least / size / gamma for size, gamma in zip(sizes, best, strict=True)]


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    first = separable(s.n, s.d, key=s.key, loss="exponential")
    second = signs(s)
    by_eps = [path(s, lab, first, Adam(slowly, (0.9, 0.95), eps)) for eps in s.eps]
    by_batch = [path(s, lab, second, moves) for moves in batches(s)]
    smallest = first.max_margin(Linf).gamma / s.d  # of L·|Zᵀp|_j over L, the average entry
    return xr.Dataset(
        {
            "eps": (("how", "norm", "step"), [ratios(first, w) for w in by_eps]),
            "least": (("how", "step"), [(w @ first.constraints.T).min(axis=1) for w in by_eps]),
            "margins": (("batch", "norm", "step"), [ratios(second, w) for w in by_batch]),
            "told": ("how", [np.log(smallest / eps) if eps else np.inf for eps in s.eps]),
        },
        {"norm": list(NORMS), "batch": list(BATCHES), "step": saves(s)},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2)
    for (color, style, _), eps, how in zip(LOOKS, s.eps, range(len(s.eps)), strict=True):
        one = data.isel(how=how)
        name = f"$10^{{{np.log10(eps):.0f}}}$" if eps else "0"
        y = one["eps"].sel(norm="largest")
        left.plot(one["least"], y, style, color=color, label=f"ε = {name}")
        if eps:
            left.axvline(float(one["told"]), ls=":", lw=1, color="black")
    left.plot([], [], ":", color="black", lw=1, label="predicted turn")
    left.set(xlabel="least margin of a sample", ylabel="ℓ∞ margin over the largest")
    left.set(xlim=(0, 40), ylim=(0.5, 1.02))
    left.legend(loc="lower right")
    for (color, style, marker), name in zip(LOOKS, BATCHES, strict=True):
        x, y = data["margins"].sel(batch=name, step=slice(s.steps // 50, None)).values
        right.plot(x, y, style, color=color, lw=0.9)
        right.plot(x[-1], y[-1], marker, color=color, ms=5)
        right.plot([], [], style, marker=marker, color=color, ms=5, label=name)
    right.axhline(1, ls=":", color="black", lw=1)
    right.axvline(1, ls=":", color="black", lw=1)
    right.set(xlabel="ℓ2 margin over the largest", ylabel="ℓ∞ margin over the largest")
    right.set(xlim=(0.5, 1.03), ylim=(0.5, 1.03))
    right.legend(loc="lower left")


def turn(data: xr.Dataset, how: int) -> float:
    """The least margin at which it grows half as fast as with ε = 0."""
    grown = np.gradient(data["least"].values, axis=1)
    slow = grown[how] < 0.5 * grown[0]
    slow[: int(np.argmax(data["least"].isel(how=how).values > 2))] = False
    return float(data["least"].isel(how=how).values[np.argmax(slow)]) if slow.any() else np.nan


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    eps = data["eps"].sel(norm="largest").values
    ends = data.isel(step=-1)
    checks = [Check("ℓ∞ margin without ε at the end", float(eps[0, -1]), low=0.95)]
    for how, size in enumerate(s.eps):
        if size:
            late = turn(data, how) - float(data["told"][how])
            name = f"ε = {size:g}"
            checks.append(Check(f"{name}: where it slows, less the prediction", late, -1.0, 1.0))
            lost = float(eps[how].max() - eps[how, -1])
            checks.append(Check(f"{name}: lost of the ℓ∞ margin", lost, low=0.02))
    for name, own in zip(BATCHES, ("largest", "euclidean", "largest"), strict=True):
        value = float(ends["margins"].sel(batch=name, norm=own))
        norm = "ℓ2" if own == "euclidean" else "ℓ∞"
        checks.append(Check(f"{name}: margin in {norm}", value, low=0.97))
    return checks


ADAM = Figure(
    id="margin.adam",
    title="Adam's separator depends on ε and on the batch",
    caption=(
        "A linear classifier from zero, exponential loss, simulated. Left: Adam on all samples. "
        r"With $\epsilon = 0$ it comes to the largest margin in $\ell_\infty$; else the average "
        r"entry of the gradient, $L\gamma_\infty/d$, falls below $\epsilon$ where the least margin "
        r"is about $\log(\gamma_\infty/(d\epsilon))$, the predicted dotted lines, and it turns "
        "away. Right: inputs of ±1; the last part of each run in the plane of two margins, over "
        "the largest of exact solvers; markers are ends. Predicted are the upper dotted line, "
        r"$\ell_\infty$, for Adam on all samples and for signs with momentum, and the right one, "
        r"$\ell_2$, for Adam on one sample after the other."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "n": 15,
        "d": 40,
        "few": 6,
        "inputs": 16,
        "eps": (0.0, 1e-8, 1e-4),
        "steps": 60_000,
        "saves": 200,
    },
    wide=True,
)
