"""Muon learns small modes first and in straight lines; gradient descent large ones, late."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Muon
from ...nets import TwoLayer
from ...numerics.host_rng import generator
from ...observe import params as observed
from ...plot import BLUE, GREEN, ORANGE, PURPLE
from ...problems import Regression
from ...theory.optimisers import learning_times, muon_singular_values
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

COLORS = (BLUE, GREEN, ORANGE, PURPLE)


def case(s: Settings) -> tuple[Regression, np.ndarray, dict[str, np.ndarray]]:
    """Whitened data, a target of given singular values, and layers aligned with it."""
    rng = generator(s.key, "figures.optimiser muon")
    modes = len(s.sizes)
    U, V, hidden = (np.linalg.qr(rng.standard_normal((s.d, modes)))[0] for _ in range(3))
    M = (U * np.asarray(s.sizes)) @ V.T
    X = np.sqrt(s.n) * np.linalg.qr(rng.standard_normal((s.n, s.d)))[0]
    a, b = s.start * rng.uniform(0.8, 1.2, (2, modes))
    return Regression.half_mean(X, X @ M), M, {"W1": (U * a) @ hidden.T, "W2": (hidden * b) @ V.T}


def parts(s: Settings, lab: Lab, dynamics: Muon | Descent) -> tuple[np.ndarray, np.ndarray]:
    """Times, and what of every mode is learnt by then."""
    problem, M, start = case(s)
    net = TwoLayer(s.d, s.d, s.d)
    steps = round(s.time / float(dynamics.lr))
    saves = np.unique(np.linspace(0, steps, s.saves).astype(int))
    record = {"params": observed}
    setup = Setup(problem, net, start, dynamics, Until(steps=steps), record, saves)
    data = lab.simulate(setup).data
    U, sizes, Vt = np.linalg.svd(M)
    count = len(s.sizes)
    products = data["params_W1"].values @ data["params_W2"].values
    shares = np.einsum("di,tdk,ik->ti", U[:, :count], products, Vt[:count]) / sizes[:count]
    return saves * float(dynamics.lr), shares


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    _, M, start = case(s)
    t, muon = parts(s, lab, Muon(s.lr, 0.0))
    u, descent = parts(s, lab, Descent(s.descent_lr))
    told = muon_singular_values(M, start, t).product / np.sort(s.sizes)[::-1]
    return xr.Dataset(
        {
            "muon": (("t", "mode"), muon),
            "told": (("t", "mode"), told),
            "descent": (("u", "mode"), descent),
            "learnt": ("mode", learning_times(M, start)),
        },
        {"t": t, "u": u, "mode": np.sort(s.sizes)[::-1]},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    for color, size in zip(COLORS, data["mode"].values, strict=False):
        one = data.sel(mode=size)
        left.plot(data["t"], one["muon"], color=color, label=f"$s = {size:g}$")
        left.plot(data["t"], one["told"], ":", color="black", lw=1)
        left.axvline(float(one["learnt"]), color=color, lw=0.7, ls="--")
        right.plot(data["u"], one["descent"], color=color)
    left.plot([], [], ":", color="black", label="predicted")
    left.set_xlim(0, 1.3 * float(data["learnt"].max()))
    left.set_title("Muon")
    right.set_title("gradient descent")
    left.set_ylabel("share of a mode that is learnt")
    left.set_xlabel("steps times learning rate")
    right.set_xlabel("steps times learning rate")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)


def half_times(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """When each mode is half learnt."""
    return times[np.argmax(values >= 0.5, axis=0)]


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    apart = np.abs(data["muon"] - data["told"]).max()
    muon = half_times(data["muon"].values, data["t"].values)
    descent = half_times(data["descent"].values, data["u"].values)
    return [
        Check("Muon: largest distance to the prediction, in shares", float(apart), high=0.02),
        Check("Muon: a larger mode comes later, at least by", float((-np.diff(muon)).min()), 0.01),
        Check("descent: a larger mode is earlier, at least by", float(np.diff(descent).min()), 0.1),
    ]


MUON = Figure(
    id="optimiser.2",
    title="Muon learns small modes first",
    caption=(
        "Two layers on whitened data, aligned with a target of four singular values $s$, from "
        "small weights. Coloured lines are runs: the share of every mode that is learnt. Muon "
        "moves all singular values of both layers at unit speed, so that a mode is learnt at "
        "$T = \\frac{1}{2}[\\sqrt{(a-b)^2+4s}-(a+b)]$ (dashed verticals), small modes first; "
        "dotted lines are the closed form. Gradient descent from the same start waits near the "
        "saddle and then learns them one after another, large modes first."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "sizes": (4.0, 2.0, 1.0, 0.5),
        "d": 5,
        "n": 12,
        "start": 0.02,
        "lr": 1e-3,
        "descent_lr": 0.01,
        "time": 10.0,
        "saves": 801,
    },
    wide=True,
)
