"""Figures 5a and 5b: a ReLU student goes from saddle to saddle, one direction at a time."""

import numpy as np
import xarray as xr

from ...plot import BLUE, GREY, ORANGE
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._relu import student

RANK_ONE = 0.1  # σ₂/σ₁ below which a seed has waited at a saddle of rank one


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    """Orthonormal teachers; and the paper's, ten samples of unit vectors with weights 1 and −1."""
    seeds = {"seed": range(s.seeds)}
    runs = lab.sweep(lambda seed: student(s, s.n, s.scale, seed, True), seeds)
    few = lab.sweep(lambda seed: student(s, s.few, s.scale, seed, False, s.few_signs), seeds)
    return _read(runs).merge(_read(few).rename(loss="few_loss", values="few_values"))


def _read(runs: xr.Dataset) -> xr.Dataset:
    return xr.Dataset(
        {
            "loss": (("seed", "step"), runs["loss"].transpose("seed", "step").values),
            "values": (
                ("seed", "step", "value"),
                runs["values"].transpose("seed", "step", ...).values,
            ),
        },
        {"step": runs["step"].values},
    )


def second(data: xr.Dataset) -> np.ndarray:
    """σ₂/σ₁ of every seed and save, NaN before the first direction is learned."""
    values = data["values"].values
    learned = values[..., 0] >= 0.5 * values[:, -1:, 0]
    return np.where(learned, values[..., 1] / values[..., 0], np.nan)


def saddle(data: xr.Dataset) -> np.ndarray:
    """The save of every seed at which the first layer is closest to rank one."""
    return np.nanargmin(second(data), axis=1)


def typical(data: xr.Dataset) -> int:
    """The seed with the median distance from rank one."""
    return int(np.argsort(np.nanmin(second(data), axis=1))[data.sizes["seed"] // 2])


def draw_loss(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    times = data["step"].values[1:] * s.lr
    weights = ", ".join(f"{sign:g}" for sign in s.few_signs)
    titles = f"{s.n} samples", f"{s.few} samples, weights {weights}"
    for ax, one, title in zip((left, right), (data, papers(data)), titles, strict=True):
        loss = one["loss"].values[:, 1:]
        ax.plot(times, loss.T, color=GREY, lw=0.4, alpha=0.6)
        middle = typical(one)
        at = saddle(one)[middle] - 1
        ax.plot(times, loss[middle], color=BLUE, lw=2, label="seed with the median outcome")
        ax.plot(times[at], loss[middle, at], "o", mfc="none", mec="black", label="rank one")
        ax.plot([], [], color=GREY, label=f"all {s.seeds} seeds")
        ax.set(xscale="log", yscale="log", xlabel="time", ylim=(1e-9, 2), title=title)
    left.set_ylabel("training loss")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def papers(data: xr.Dataset) -> xr.Dataset:
    """The seeds of the paper's setting, under the names of the others."""
    few = data[["few_loss", "few_values"]]
    return few.rename(few_loss="loss", few_values="values")


def seen_few(data: xr.Dataset) -> Check:
    """Most seeds of the paper's setting wait at rank one, not all."""
    share = float(np.mean(np.nanmin(second(papers(data)), axis=1) < RANK_ONE))
    return Check("share of seeds in the paper's setting that wait at rank one", share, 0.4, 0.96)


def draw_values(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    times = data["step"].values[1:] * s.lr
    one = typical(data)
    at = saddle(data)
    values = data["values"].values[one, 1:]
    kinds = ((BLUE, "-", "largest"), (ORANGE, "--", "second"), (GREY, ":", "third"))
    for value, (colour, kind, label) in enumerate(kinds):
        ax.plot(times, values[:, value], kind, color=colour, label=label)
    ax.axvline(times[at[one] - 1], color="black", lw=0.6)
    ax.set(xscale="log", yscale="log", xlabel="time", ylabel=r"singular values of $W_1$")
    figure.legend(loc="outside lower center", ncols=3)


def seen_loss(data: xr.Dataset, s: Settings) -> list[Check]:
    loss = data["loss"].values
    at = saddle(data)
    there = loss[np.arange(len(loss)), at]
    fitted = np.median(loss[:, -1] / loss[:, 0])
    left = np.median(there / loss[:, 0])
    after = np.median(loss[:, -1] / there)
    return [
        Check("loss at rank one over that at the start, median", float(left), 0.02, 0.9),
        Check("last loss over that at rank one, median", float(after), high=0.05),
        Check("last loss over that at the start, median", float(fitted), high=0.01),
        seen_few(data),
    ]


def seen_values(data: xr.Dataset, s: Settings) -> list[Check]:
    least = np.nanmin(second(data), axis=1)
    last = data["values"].values[:, -1]
    return [
        Check("least σ₂/σ₁ once the first is learned, median", float(np.median(least)), high=0.1),
        Check("σ₂/σ₁ at the end, median", float(np.median(last[:, 1] / last[:, 0])), low=0.3),
        Check("σ₃/σ₂ at the end, median", float(np.median(last[:, 2] / last[:, 1])), high=0.2),
    ]


QUICK = {
    "n": 40,
    "few": 10,
    "few_signs": (1.0, -1.0),
    "d": 5,
    "width": 20,
    "signs": (1.0, -0.5),
    "scale": 1e-6,
    "lr": 0.05,
    "steps": 8000,
    "seeds": 24,
}
FULL = {"steps": 24000, "seeds": 96}
LOSS = Figure(
    id="spectral.5a",
    title="ReLU: from saddle to saddle",
    caption=(
        "The ReLU student of Figure 2 from a tiny start, two orthonormal teachers with weights 1 "
        "and −½. The loss waits near the origin, falls to a first plateau and then to zero. The "
        "blue seed is the one with the median outcome of all seeds (grey), not a chosen one; the "
        "ring marks where its first layer is closest to rank one. No formula predicts the plateau; "
        "the claim is that there is an intermediate saddle. With these teachers it is seen in the "
        "median seed. Right, the paper's own setting, ten samples of two unit vectors with weights "
        "±1: most seeds wait at rank one, and some learn both directions at once."
    ),
    compute=compute,
    draw=draw_loss,
    seen=seen_loss,
    quick=QUICK,
    full=FULL,
    wide=True,
)
VALUES = Figure(
    id="spectral.5b",
    title="ReLU: the first phase learns rank one",
    caption=(
        "Singular values of the first layer along the run of Figure 5a, for the seed with the "
        "median outcome. The claim is that the first phase ends near a matrix of rank one. "
        "Measured: when the first singular value has been learned, the second is still small "
        "(vertical line: where their ratio is least); it grows only after the plateau, and the "
        "third stays behind, so that the net ends with the two directions of its teachers. The "
        "medians over all seeds say the same; they, not one seed, are what is checked."
    ),
    compute=compute,
    draw=draw_values,
    seen=seen_values,
    quick=QUICK,
    full=FULL,
    height=0.85,
)
