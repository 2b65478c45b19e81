"""Figures 3 and 8: how much of a linear autoencoder sits in each layer, and how sharp it is."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ... import observe, theory
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...init import xavier
from ...nets import Net, TwoLayer
from ...noise import Minibatch
from ...numerics.types import PyTree
from ...plot import BLACK, BLUE, GREEN, ORANGE
from ...problems import Problem, autoencoding
from .._figure import Axes, Canvas, Check, Figure, Settings
from .._lab import Lab

# The paper's Xavier has half of Glorot's variance; the equilibrium lies between the two starts.
STARTS = {"Xavier": np.sqrt(0.5), "Glorot": 1.0}
SMALL_DECAY = 5e-5  # γ of a weight decay of 1e-4 as PyTorch counts it
FOLDS = 10.0  # of e^{−4γt}: how long gradient descent with weight decay runs


def setup(
    s: Settings, phi: float, lr: float, batch: int, d: int, width: int, seed: int, gain: float = 1.0
) -> Setup:
    """SGD on fresh samples of y = x + ε, long enough for the slowest direction."""
    net = TwoLayer(d, d, width)
    problem = autoencoding(d, phi)
    fold = theory.symmetry.equilibration_time(problem.sigma_x, problem.sigma_eps, lr / batch)
    steps = int(s.spans * fold / lr)
    # The mean over the last quarter: the end itself still fluctuates.
    late = np.linspace(0.75, 1, s.saves) * steps
    return Setup(
        problem,
        net,
        xavier(net, key=seed, gain=gain),
        Descent(lr, Minibatch(batch)),
        Until(steps=steps),
        {"norms": norms, "trace": observe.hessian_trace},
        save_at=np.unique(np.concatenate([[0], late]).astype(int)),
        key=seed,
    )


def decaying(setup: Setup, gamma: float) -> Setup:
    """The same with a weight decay so small that noise decides."""
    moves = setup.dynamics
    assert isinstance(moves, Descent)
    return setup.replace(dynamics=Descent(moves.lr, moves.noise, weight_decay=gamma))


def noiseless(setup: Setup, gamma: float) -> Setup:
    """Gradient descent with weight decay, until little is left of what it takes away."""
    moves = setup.dynamics
    assert isinstance(moves, Descent)
    steps = int(FOLDS / (4 * gamma * float(moves.lr)))
    return setup.replace(
        dynamics=Descent(moves.lr, weight_decay=gamma),
        until=Until(steps=steps),
        record={"norms": norms},
        save_at=[0, steps],
    )


def norms(problem: Problem, net: Net, params: PyTree) -> jax.Array:
    """‖U‖² of the second layer and ‖W‖² of the first."""
    return jnp.stack([jnp.sum(params["W2"] ** 2), jnp.sum(params["W1"] ** 2)])


def told(phi: float, d: int) -> tuple[float, float]:
    """‖U‖²/‖W‖² and Tr H at the noise equilibrium."""
    problem = autoencoding(d, phi)
    U, W = theory.symmetry.factorisation_equilibrium(problem, d)
    trace = theory.symmetry.factorisation_hessian_trace(problem, U, W)
    return float(np.sum(U * U) / np.sum(W * W)), trace


def settled(data: xr.Dataset, name: str) -> xr.DataArray:
    """The mean over the saves after the first."""
    return data[name].isel(step=slice(1, None)).mean("step")


def share(data: xr.Dataset) -> xr.DataArray:
    """‖U‖²/‖W‖² at the end."""
    found = settled(data, "norms")
    return found.isel(norms_axis0=0) / found.isel(norms_axis0=1)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    def build(phi: float, start: str, seed: int) -> Setup:
        key = 100 * s.key + 2 * seed + list(STARTS).index(start)  # no two runs share their noise
        return setup(s, phi, s.lr, s.batch, s.d, s.width, key, STARTS[start])

    # Every φ has its own number of steps: its saves are numbered, not timed.
    over = {"start": list(STARTS), "seed": range(s.seeds)}
    parts: list[xr.Dataset] = [
        lab.sweep(build, {"phi": [phi], **over}).drop_vars(["step", "time"]) for phi in s.phis
    ]
    whole = xr.concat(parts, "phi")[["norms", "trace"]].drop_attrs()
    fine = np.linspace(min(s.phis), max(s.phis), 41)
    return whole.assign(
        told=(("what", "phi"), np.transpose([told(phi, s.d) for phi in s.phis])),
        line=(("what", "fine"), np.transpose([told(phi, s.d) for phi in fine])),
        fine=fine,
        what=["ratio", "trace"],
    )


def compute_arms(s: Settings, lab: Lab) -> xr.Dataset:
    """The same runs, SGD with a small weight decay, and gradient descent with a larger one."""

    def start(phi: float, seed: int) -> Setup:
        return setup(s, phi, s.lr, s.batch, s.d, s.width, 100 * s.key + 50 + seed)

    def sgd(phi: float, seed: int) -> Setup:
        return decaying(start(phi, seed), SMALL_DECAY).replace(record={"norms": norms})

    def descent(phi: float, seed: int) -> Setup:
        return noiseless(start(phi, seed), s.gamma)

    whole = compute(s, lab)
    for name, build in {"SGD + WD": sgd, "GD + WD": descent}.items():
        parts: list[xr.Dataset] = [
            lab.sweep(build, {"phi": [phi], "seed": range(s.seeds)}).drop_vars(["step", "time"])
            for phi in s.phis
        ]
        ratio = share(xr.concat(parts, "phi")[["norms"]])
        whole = whole.assign({name: ratio.drop_attrs()})
    return whole


def marks(ax: Axes, found: xr.DataArray) -> None:
    """Mean and standard error over starts and seeds."""
    each = found.stack(member=("start", "seed"))
    error = each.std("member", ddof=1) / np.sqrt(each.sizes["member"])
    ax.errorbar(
        found["phi"], each.mean("member"), error, fmt="o", color=BLUE, label="SGD, end", zorder=3
    )


def draw_ratio(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    marks(ax, share(data))
    for name, (colour, marker) in ARMS.items():
        ends = data[name].mean("seed")
        ax.plot(data["phi"], ends, marker, color=colour, mfc="none", label=f"{name}, end", ms=8)
    ax.plot(data["fine"], data["line"].sel(what="ratio"), color=BLACK, label="noise equilibrium")
    ax.axhline(1, ls="--", color="#777777", lw=0.9, label="balanced layers")
    ax.set(xlabel=r"$\phi_x$", ylabel=r"$\|U\|^2/\|W\|^2$ at the end", ylim=(0.45, 1.1))
    ax.legend(loc="lower center")


def draw_trace(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    for start, (colour, marker) in {"Xavier": (ORANGE, "^"), "Glorot": (GREEN, "v")}.items():
        values = data["trace"].isel(step=0).sel(start=start).mean("seed")
        label = f"start, {start}"
        ax.plot(data["phi"], values, marker, color=colour, mfc="none", label=label)
    marks(ax, settled(data, "trace"))
    ax.plot(data["fine"], data["line"].sel(what="trace"), color=BLACK, label="noise equilibrium")
    ax.set(xlabel=r"$\phi_x$", ylabel=r"$\mathrm{Tr}\,H$")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def seen_ratio(data: xr.Dataset, s: Settings) -> list[Check]:
    found = share(data)
    mean = found.mean(["start", "seed"]).values
    error = abs(mean / data["told"].sel(what="ratio").values - 1).max()
    by_start = found.mean("seed")
    apart = abs(by_start.sel(start="Xavier") / by_start.sel(start="Glorot") - 1).max()
    return [
        Check("largest relative error of the predicted ratio", float(error), high=0.03),
        Check("smallest ratio, where balance would be 1", float(mean.min()), 0.5, 0.7),
        Check("largest difference between the two starts", float(apart), high=0.05),
    ]


def seen_arms(data: xr.Dataset, s: Settings) -> list[Check]:
    told = data["told"].sel(what="ratio")
    small = abs(data["SGD + WD"].mean("seed") / told - 1).max()
    balanced = abs(data["GD + WD"] - 1).max()
    return [
        *seen_ratio(data, s),
        Check("SGD + WD: largest relative error of the same ratio", float(small), high=0.03),
        Check("GD + WD: largest distance to balance", float(balanced), high=1e-3),
    ]


def seen_trace(data: xr.Dataset, s: Settings) -> list[Check]:
    found = settled(data, "trace").mean(["start", "seed"])
    error = found.values / data["told"].sel(what="trace").values - 1
    first = data["trace"].isel(step=0).mean("seed") / data["told"].sel(what="trace")
    middle = int(np.argmin(abs(np.asarray(s.phis) - 1)))
    # To first order in the step the fluctuations of UW lower both norms by lr·d/2S at φ = 1.
    bias = error[middle] / (-s.lr * s.d / (2 * s.batch))
    # The starts do not know φ, and at φ = 1 have h/(h + d) and 2h/(h + d) of the equilibrium.
    told = data["told"].sel(what="trace")
    begins = s.width / (s.width + s.d) * told.isel(phi=middle) / told
    xavier = first.sel(start="Xavier")
    glorot = first.sel(start="Glorot")
    return [
        Check("largest distance of Tr H to the equilibrium", float(abs(error).max()), high=0.12),
        Check("its deficit at φ = 1 ÷ lr·d/2S", float(bias), 0.6, 1.6),
        Check("Tr H at φ = 1 ÷ at the smallest φ", float(found[middle] / found[0]), 1.07, 1.17),
        Check("Xavier start at φ = 1 ÷ equilibrium", float(xavier[middle]), high=1.0),
        Check("Xavier: largest error of h/(h + d)", _farthest(xavier / begins), high=0.08),
        Check("lowest Glorot start ÷ equilibrium", float(glorot.min()), low=1.15),
        Check("Glorot: largest error of 2h/(h + d)", _farthest(glorot / (2 * begins)), high=0.08),
    ]


def _farthest(ratios: xr.DataArray) -> float:
    return float(abs(ratios - 1).max())


SIZES = {
    "d": 20,
    "width": 40,
    "lr": 0.02,
    "batch": 10,
    "phis": (0.2, 0.6, 1.0, 1.4, 1.8),
    "seeds": 2,
    "spans": 10.0,
    "saves": 20,
}
ARMS = {"SGD + WD": (GREEN, "o"), "GD + WD": (ORANGE, "s")}
FULL = {"d": 100, "width": 2000, "lr": 0.03, "batch": 100}

RATIO = Figure(
    id="equilibrium.3a",
    title="Layers share their norm as the input noise says",
    caption=(
        r"A linear autoencoder $y = UWx$ on fresh samples whose inputs have the variances "
        r"$\phi_x$ and $2-\phi_x$. Theorem 5.2 says that SGD ends where the gradient noise of the "
        r"two layers balances: $\|U\|^2/\|W\|^2 = "
        r"\mathrm{Tr}\,\Sigma_x^{1/2}/\mathrm{Tr}\,\Sigma_x^{-1/2}$ (line). Marks: SGD from two "
        "scales of the start, mean and standard error over starts and seeds, averaged over the "
        r"last quarter of the run; SGD with a weight decay of $10^{-4}$; and gradient descent with "
        "weight decay. Weight decay without noise balances the layers (dashed, 1). With "
        "anisotropic inputs SGD stays away from that by up to 40 per cent, and a small weight "
        "decay does not change where it ends."
    ),
    compute=compute_arms,
    draw=draw_ratio,
    seen=seen_arms,
    quick={**SIZES, "gamma": 0.02},
    full=FULL,
    default=True,
)
TRACE = Figure(
    id="equilibrium.3b",
    title="Sharpness at the end is that of the equilibrium",
    caption=(
        "The trace of the Hessian in the runs of panel a, at the start (triangles: the paper's "
        "Xavier, and Glorot's with twice its variance) and at the end (dots), with "
        r"$2d^2(\sqrt{\phi_x}+\sqrt{2-\phi_x})$, its value at the noise equilibrium (line). SGD "
        "seeks neither flat nor sharp minima here: it goes to this value from either side; at "
        r"$\phi_x = 1$ the starts have $h/(h+d)$ and $2h/(h+d)$ of it. The ends lie slightly below "
        r"the line, a bias of the finite step: to first order $-\mathrm{lr}\,d/2S$ of the trace at "
        r"$\phi_x = 1$, as measured."
    ),
    compute=compute,
    draw=draw_trace,
    seen=seen_trace,
    quick=SIZES,
    full=FULL,
    default=True,
    height=0.9,
)
