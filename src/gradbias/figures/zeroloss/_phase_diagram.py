"""How many samples label noise needs, over the sparsity of the teacher."""

import numpy as np
import xarray as xr

from ...plot import BLACK, ORANGE
from ...problems import sparse, sparse_teacher
from ...theory import diagonal
from .._figure import Axes, Canvas, Check, Figure, Settings
from .._lab import Lab

FOUND = 0.01  # of |w*|²: a smaller error is recovery


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    shape = (len(s.nonzero), len(s.samples), s.trials)
    parts = {name: np.zeros(shape) for name in ("noise", "l1", "kernel")}
    for i, nonzero in enumerate(s.nonzero):
        for j, n in enumerate(s.samples):
            for trial in range(s.trials):
                key = ((1000 * s.key + nonzero) * 1000 + n) * 1000 + trial
                for name, error in _errors(s, n, nonzero, key).items():
                    parts[name][i, j, trial] = error < FOUND
    dims = ("nonzero", "n")
    shares = {name: (dims, rows.mean(axis=2)) for name, rows in parts.items()}
    agree = (parts["noise"] == parts["l1"]).mean()
    coords = {"nonzero": list(s.nonzero), "n": list(s.samples)}
    return xr.Dataset({**shares, "agree": float(agree)}, coords)


def _errors(s: Settings, n: int, nonzero: int, key: int) -> dict[str, float]:
    """|w − w*|²/|w*|² of label noise after the time T, of weighted ℓ1, and of least ℓ2 norm."""
    problem = sparse(n, s.d, nonzero, key=key)
    teacher = sparse_teacher(s.d, nonzero, key)
    start = np.full(s.d, s.alpha)
    u, v = diagonal.limiting_flow(problem, {"u": start, "v": start}, s.time, s.std**2)
    found = {
        "noise": (u - v) * (u + v),
        "l1": diagonal.weighted_l1(problem),
        "kernel": diagonal.kernel_solution(problem),
    }
    return {name: float(np.sum((w - teacher) ** 2) / nonzero) for name, w in found.items()}


def threshold(s: Settings, nonzero: np.ndarray) -> np.ndarray:
    """κ ln(d/κ) + κ: where recovery ought to begin, up to a constant."""
    return np.array([diagonal.boolean_recovery(1, s.d, int(k)).threshold for k in nonzero])


def half(data: xr.Dataset, name: str) -> np.ndarray:
    """The number of samples at which half of the data sets recover, for each κ.

    The mean of the least number that recovers, from the area above the curve: all trials count,
    not only those next to one half.
    """
    n = data["n"].values
    gap = n[1] - n[0]
    return n[0] - gap / 2 + gap * np.sum(1 - data[name].values, axis=1)


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    panels = figure.subplots(1, 3, sharey=True)
    kappa = data["nonzero"].values
    n = data["n"].values
    titles = {"noise": "label noise", "l1": "weighted ℓ1 (its limit)", "kernel": "least ℓ2 norm"}
    meshes = [
        ax.pcolormesh(kappa, n, data[name].values.T, vmin=0, vmax=1, cmap="Blues")
        for ax, name in zip(panels, titles, strict=True)
    ]
    for ax, (name, title) in zip(panels, titles.items(), strict=True):
        _guides(ax, s, kappa)
        if name != "kernel":
            ax.plot(kappa, half(data, name), "o", color=ORANGE, mec=BLACK, label="half recover")
        ax.set(xlabel=r"non-zero coordinates $\kappa$", title=title, xticks=kappa)
    panels[0].set(ylabel="samples $n$", ylim=(n[0] - 1, n[-1] + 1))
    figure.colorbar(meshes[0], ax=panels, label="part that recovers")
    handles, words = panels[0].get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=3)


def _guides(ax: Axes, s: Settings, kappa: np.ndarray) -> None:
    smooth = np.linspace(kappa[0] - 0.5, kappa[-1] + 0.5, 60)
    lemma = smooth * (np.log(s.d / smooth) + 1)
    ax.plot(smooth, lemma, color=BLACK, label=r"$\kappa\ln(d/\kappa) + \kappa$")
    ax.plot(smooth, smooth * np.log(s.d), "--", color=BLACK, label=r"$\kappa\ln d$")


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    kappa = data["nonzero"].values
    found = half(data, "noise")
    told = threshold(s, kappa)
    printed = float((found / (kappa * np.log(s.d))).mean())
    return [
        Check("half recover at n/(κ ln(d/κ) + κ), mean", float((found / told).mean()), 0.85, 1.2),
        Check("half recover at n/(κ ln d), mean", printed, 0.6, 1.2),
        Check("correlation of that n with theory", float(np.corrcoef(found, told)[0, 1]), low=0.95),
        Check("flow and ℓ1 agree, part of the data sets", float(data["agree"]), low=0.9),
        Check("least ℓ2 norm: largest part that recovers", float(data["kernel"].max()), high=0.05),
    ]


PHASE_DIAGRAM = Figure(
    id="zeroloss.phase_diagram",
    title="Samples that label noise needs: κ ln d, not d",
    caption=(
        "Recovery of a teacher with κ of $d$ non-zero coordinates from $n$ samples of random "
        "signs. Left: a diagonal net from a large start under label noise, by its limiting flow "
        "in closed form; middle: the weighted ℓ1 problem that Lemma 6.5 names as its end; right: "
        "the fit of least ℓ2 norm. Shading: the part of data sets whose relative error is below "
        "one percent; circles: where it is one half. Theory asks for a multiple of κ ln(d/κ) + κ "
        "(line). Measured, the constant is about one; label noise and ℓ1 agree nearly always, and "
        "least ℓ2 norm never recovers with $n < d$."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "d": 40,
        "nonzero": (2, 3, 4, 5, 6),
        "samples": (5, 8, 11, 14, 17, 20, 23, 26),
        "trials": 14,
        "alpha": 1.0,
        "std": 1.0,
        "time": 40.0,
    },
    full={
        "d": 100,
        "nonzero": (2, 3, 4, 5, 6, 7, 8),
        "samples": tuple(range(5, 50, 3)),
        "trials": 50,
    },
    wide=True,
)
