"""Figures 3a and 3b: the noise of label-noise descent alone, without its gradient."""

import math

import numpy as np
import xarray as xr
from scipy.special import erfc

from ... import theory
from ...plot import BLACK, BLUE, GREEN, ORANGE
from ...theory.noise_only import NoisePaths
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

SHOWN = 3  # runs, as in the paper
# E|(z_i ∧ a)_kl| for t → ∞ with two inputs, from W = I and a = 0.
MEAN_COMMUTATOR = (
    2
    / math.pi
    * math.sqrt(math.pi / 2)
    / (1 + math.sqrt(math.e * math.pi / 2) * float(erfc(1 / math.sqrt(2))))
)


def paths(s: Settings, d: int, count: int, times: np.ndarray, step: float) -> NoisePaths:
    """Runs from W = I and a = 0 with white inputs."""
    return theory.noise_only_paths(
        np.eye(d), np.eye(d), np.zeros(d), times, count, step, 10 * s.key + d
    )


def compute_values(s: Settings, lab: Lab) -> xr.Dataset:
    times = np.linspace(0, s.time, s.saves)
    found = [np.linalg.svd(paths(s, d, s.paths, times, s.step / d).W)[1][..., :2] for d in s.d]
    exponents = [theory.noise_only_lyapunov(d)[:2] for d in s.d]
    return xr.Dataset(
        {
            "values": (("d", "path", "time", "value"), np.stack(found)),
            "exponent": (("d", "value"), np.stack(exponents)),
        },
        {"d": list(s.d), "time": times},
    )


def draw_values(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    panels = figure.subplots(1, len(s.d), sharey=True)
    times = data["time"].values
    for ax, d in zip(panels, s.d, strict=True):
        one = data.sel(d=d)
        for value, (colour, kind) in enumerate(((BLUE, "-"), (ORANGE, "--"))):
            values = one["values"].values[..., value]
            ax.plot(times, values[:SHOWN].T, kind, color=colour, lw=0.7, alpha=0.6)
            ax.plot(times, np.exp(np.log(values).mean(axis=0)), kind, color=colour, lw=2)
            late = times[times >= s.time / 4]
            line = np.log(values[:, -1]).mean() + float(one["exponent"][value]) * (late - s.time)
            ax.plot(late, np.exp(line), color=BLACK, lw=0.8)
        ax.set(yscale="log", xlabel="time", title=f"$d = {d}$ inputs")
    panels[0].set_ylabel(r"singular values of $W$")
    kinds = [(BLUE, "-"), (ORANGE, "--"), (BLACK, "-")]
    handles = [panels[0].plot([], [], kind, color=colour)[0] for colour, kind in kinds]
    words = ["largest", "second", "predicted exponents"]
    figure.legend(handles, words, loc="outside lower center", ncols=3)


def growth(log: np.ndarray, times: np.ndarray) -> tuple[float, float]:
    """The mean rate of (paths, times) logarithms and its standard error, without the first part."""
    first = int(np.searchsorted(times, 0.4 * times[-1]))
    rates = (log[:, -1] - log[:, first]) / (times[-1] - times[first])
    return float(rates.mean()), float(rates.std(ddof=1) / np.sqrt(len(rates)))


def seen_values(data: xr.Dataset, s: Settings) -> list[Check]:
    found: list[Check] = []
    times = data["time"].values
    for d in s.d:
        one = data.sel(d=d)
        for value, name in enumerate(("largest", "second")):
            rate, error = growth(np.log(one["values"].values[..., value]), times)
            z = (rate - float(one["exponent"][value])) / error
            found.append(Check(f"d = {d}: z of the exponent {rate:.3f} of the {name}", z, -4, 4))
        grown = float((one["values"].values[:, -1, 0] > 1).mean())
        low, high = (0.4, 0.68) if d == 2 else (0.85, 1.0)
        found.append(Check(f"d = {d}: part of the runs whose largest has grown", grown, low, high))
    return found


def compute_alignment(s: Settings, lab: Lab) -> xr.Dataset:
    times = np.linspace(0, s.time, s.saves)
    W, a = paths(s, 2, s.paths, times, s.step / 2)
    early = np.linspace(0, s.early, 13)
    many = paths(s, 2, s.many, early, s.step)
    first = W[..., 0, :]
    wedge = _wedge(first, a)
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(a, axis=-1)
    sine = wedge[:, 1:] / lengths[:, 1:]
    means = _wedge(many.W[..., 0, :], many.a)
    rates = theory.noise_only_lyapunov(2)
    return xr.Dataset(
        {
            "commutator": (("path", "time"), wedge[:, 1:]),
            "sine": (("path", "time"), sine),
            "mean": ("early", means.mean(axis=0)),
            "error": ("early", means.std(axis=0) / np.sqrt(len(means))),
            "rate": float(rates[1] - rates[0]),
        },
        {"time": times[1:], "early": early},
    )


def _wedge(z: np.ndarray, a: np.ndarray) -> np.ndarray:
    """|z₁a₂ − z₂a₁|: the only entry of the commutator of two vectors of the plane."""
    return np.abs(z[..., 0] * a[..., 1] - z[..., 1] * a[..., 0])


def draw_alignment(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    times = data["time"].values
    ax.plot(times, data["commutator"].values[:SHOWN].T, color=BLUE, lw=0.6, alpha=0.5)
    (middle,) = ax.plot(times, np.median(data["commutator"].values, axis=0), color=BLUE, lw=2)
    log = np.log(data["sine"].values).mean(axis=0)
    (sine,) = ax.plot(times, np.exp(log), "--", color=GREEN, lw=2)
    used = times >= s.time / 4
    slope = float(data["rate"]) * times[used]
    (line,) = ax.plot(times[used], np.exp(slope + (log[used] - slope).mean()), color=BLACK, lw=0.8)
    few = data.isel(early=slice(1, None, 3))
    mean = ax.errorbar(few["early"], few["mean"], few["error"], fmt="s", color=ORANGE, zorder=3)
    limit = ax.axhline(MEAN_COMMUTATOR, color=BLACK, ls=":", lw=0.8)
    ax.set(yscale="log", xlabel="time", ylabel=r"size of $[w_1, a]$", ylim=(5e-4, 6))
    handles = [middle, mean, limit, sine, line]
    words = ["median", "mean", "limit of the mean", "sine of the angle", "its exponent"]
    figure.legend(handles, words, loc="outside lower center", ncols=3)


def seen_alignment(data: xr.Dataset, s: Settings) -> list[Check]:
    rate, error = growth(np.log(data["sine"].values), data["time"].values)
    z = (rate - float(data["rate"])) / error
    last = float(np.median(data["commutator"].values[:, -1]))
    mean = float(data["mean"][-1])
    return [
        Check(f"z of the exponent {rate:.3f} of the sine", z, -4, 4),
        Check("median of the commutator at the end", last, high=0.05),
        Check("mean of the commutator over its limit", mean / MEAN_COMMUTATOR, 0.9, 1.1),
    ]


SINGULAR_VALUES = Figure(
    id="spectral.3a",
    title="Noise alone separates the singular values",
    caption=(
        r"The noise of label-noise descent without its gradient, $dW = dB\,a^T$, $da = W^TdB$. "
        "Thin lines: three runs; thick lines: geometric mean of 400; black: slopes of the exact "
        "Lyapunov exponents, which agree. The second singular value falls behind the first, so "
        r"$W$ tends to rank one. For the paper's $d=2$, as we read it, the first one grows; "
        "measured, it has exponent 0 and grows in half of the runs. From three inputs on it does "
        "grow, on the right in nearly all runs; the second one decays up to five inputs and grows "
        "from six on, more slowly than the first."
    ),
    compute=compute_values,
    draw=draw_values,
    seen=seen_values,
    quick={"d": (2, 5), "time": 20.0, "saves": 101, "paths": 400, "step": 0.0075},
    full={"paths": 1000},
    wide=True,
)
ALIGNMENT = Figure(
    id="spectral.3b",
    title="Noise alone aligns the rows with the output",
    caption=(
        r"Two inputs, noise only, from $W=I$, $a=0$: the size of the commutator of the first row "
        r"of $W$ with $a$, which is zero where they are parallel. Blue: three runs and the median "
        "of 400, which decays as the paper says. The mean (squares, 20000 runs) does not: as we "
        r"read Proposition 4.1(c) it is $|e_0|e^{-t} = 0$ for this start; measured, it rises to "
        "the dotted limit 0.482, because rare runs are large. The statement without a scale holds "
        "for every number of inputs: the sine of the angle (green) falls at the difference of two "
        "Lyapunov exponents (black)."
    ),
    compute=compute_alignment,
    draw=draw_alignment,
    seen=seen_alignment,
    quick={
        "time": 20.0,
        "saves": 101,
        "paths": 400,
        "step": 0.0075,
        "early": 2.0,
        "many": 20000,
    },
    full={"paths": 1000, "many": 100000},
    height=0.85,
)
