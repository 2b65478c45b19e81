"""What noise alone makes of AdamW: the size of its updates, and of the weights."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Adam
from ...nets import Deep
from ...noise import Isotropic
from ...observe import theta
from ...plot import BLUE, GREEN, ORANGE
from ...problems import Regression
from ...theory.optimisers import noise_rms, update_rms
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

LOOKS = ((BLUE, "o", 8), (ORANGE, "s", 5), (GREEN, "^", 3))
WEAK = 1e-9  # inputs so small that gradients are noise alone


def saves(s: Settings) -> np.ndarray:
    """Pairs of steps that follow one another."""
    last = round(s.periods / (s.lr * s.decay))
    firsts = np.unique(np.geomspace(20, last - 1, s.saves).astype(int))
    return np.unique(np.concatenate([firsts, firsts + 1]))


def path(s: Settings, lab: Lab, beta1: float) -> np.ndarray:
    """Weights from zero in a field of noise, at every save."""
    problem = Regression.half_mean(np.full((1, s.d), WEAK), np.ones((1, 1)))
    moves = Adam(s.lr, (beta1, s.beta2), 0.0, s.decay, noise=Isotropic(1.0))
    start = {"W1": np.zeros((s.d, 1))}
    at = saves(s)
    until = Until(steps=int(at[-1]))
    setup = Setup(problem, Deep([s.d, 1]), start, moves, until, {"theta": theta}, at, key=s.key)
    return lab.simulate(setup).data["theta"].values.reshape(len(at), s.d)


def rms(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt((values**2).mean(axis=-1)))


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    at = saves(s)
    paths = [path(s, lab, beta1) for beta1 in s.beta1]
    pairs = np.flatnonzero((np.diff(at) == 1) & (at[:-1] > 1 / (1 - s.beta2)))
    updates = [(w[pairs + 1] - (1 - s.lr * s.decay) * w[pairs]) / s.lr for w in paths]
    return xr.Dataset(
        {
            "weight": (("beta1", "step"), [rms(w) for w in paths]),
            "update": ("beta1", [float(rms(u.ravel())) for u in updates]),
            "told": ("beta1", [update_rms(beta1) for beta1 in s.beta1]),
            "floor": noise_rms(s.lr, s.decay),
        },
        {"beta1": list(s.beta1), "step": at},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2)
    curve = np.linspace(0, 0.99, 200)
    right.plot(curve, [update_rms(beta1) for beta1 in curve], color="black", lw=1)
    for (color, marker, size), beta1 in zip(LOOKS, s.beta1, strict=True):
        one = data.sel(beta1=beta1)
        label = f"β₁ = {beta1:g}"
        look = {"color": color, "marker": marker, "mfc": "none", "ms": size, "lw": 0.8}
        left.plot(one["step"][::2], one["weight"][::2], label=label, **look)
        right.plot(beta1, one["update"], marker, mfc="none", color=color, ms=7)
    left.axhline(float(data["floor"]), ls="--", color="black", lw=1, label="predicted")
    left.set(xscale="log", xlabel="step", ylabel="rms of the weights", ylim=(0, None))
    right.set(xlabel="β₁", ylabel="rms of an update over η", ylim=(0, 1.05))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    checks = []
    for beta1 in s.beta1:
        one = data.sel(beta1=beta1)
        update = float(one["update"] / one["told"])
        weight = float(one["weight"][-1] / data["floor"])
        checks.append(Check(f"β₁ = {beta1:g}: update over the prediction", update, 0.98, 1.02))
        checks.append(Check(f"β₁ = {beta1:g}: weights over the floor", weight, 0.98, 1.02))
    return checks


NOISE_FLOOR = Figure(
    id="optimiser.4",
    title="Noise alone gives weights a size",
    caption=(
        "AdamW where gradients are white noise and nothing else. Left: the root mean square of "
        "weights that start at zero, simulated with three values of $\\beta_1$. All come to the "
        "predicted floor $\\sqrt{\\eta/2\\lambda}$, the dashed line: learning rate and decay "
        "decide it, and memory does not. Right: the size of a single update over the learning "
        "rate. Markers are simulated and the line is predicted, "
        "$\\sqrt{(1-\\beta_1)/(1+\\beta_1)}$, which is 0.23 at $\\beta_1 = 0.9$."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "d": 20_000,
        "lr": 0.01,
        "decay": 0.1,
        "beta1": (0.0, 0.5, 0.9),
        "beta2": 0.999,
        "periods": 4.0,
        "saves": 25,
    },
    wide=True,
)
