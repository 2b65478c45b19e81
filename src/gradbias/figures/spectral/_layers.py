"""Figures 1a and 4: which singular values of the first layer grow, from several kinds of start."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from ... import observe, theory
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...init import gaussian as gaussian_init
from ...init import orthogonal
from ...nets import TwoLayer
from ...plot import BLACK, BLUE, ORANGE
from ...problems import Regression, gaussian
from .._figure import Canvas, Settings
from .._lab import Lab

Start = tuple[str, float, float]  # ("orthogonal", γ, 0) or ("gaussian", std of W1, std of W2)
RECORD = {"loss": observe.loss, "values": observe.singular_values("W1")}

# Of both figures.
SIZES = {"n": 5, "d": 10, "k": 3, "width": 200, "lr": 0.02, "steps": 3000}


def problem(s: Settings) -> Regression:
    """As many outputs as singular values that ought to grow."""
    return gaussian(s.n, s.d, s.k, key=s.key, loss="half_mean")


def params(s: Settings, start: Start) -> dict[str, np.ndarray]:
    """Where the net starts."""
    net = TwoLayer(s.d, s.k, s.width)
    kind, first, second = start
    if kind == "orthogonal":
        return orthogonal(net, first, key=s.key)
    return gaussian_init(net, {"W1": first, "W2": second}, key=s.key)


def gamma(s: Settings, start: Start) -> float:
    """The scale of the init; of a Gaussian one that of the orthogonal init which it is close to."""
    kind, first, _ = start
    return first if kind == "orthogonal" else s.width * first**2 / 2


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    data = problem(s)
    starts = [(str(kind), float(a), float(b)) for kind, a, b in s.starts]

    def build(start: int) -> Setup:
        net = TwoLayer(s.d, s.k, s.width)
        first = params(s, starts[start])
        return Setup(data, net, first, Descent(s.lr), Until(steps=s.steps), RECORD, key=s.key)

    runs = lab.sweep(build, {"start": range(len(starts))})
    told = [theory.spectral_limit(data, gamma(s, one)).singular_values.W1 for one in starts]
    names = {"values": ("start", "step", "value"), "loss": ("start", "step")}
    measured = {name: (dims, runs[name].values) for name, dims in names.items()}
    scales = ("start", [gamma(s, one) for one in starts])
    return xr.Dataset(
        {**measured, "predicted": (("start", "value"), np.stack(told)), "gamma": scales},
        {"step": runs["step"].values},
    )


def drawn(
    labels: Callable[[Settings], list[str]],
) -> Callable[[Canvas, xr.Dataset, Settings], None]:
    """A panel for each start, under these titles."""

    def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
        panels = figure.subplots(1, data.sizes["start"], sharey=True)
        steps = data["step"].values[1:]
        for number, (ax, label) in enumerate(zip(panels, labels(s), strict=True)):
            one = data.isel(start=number)
            values = one["values"].values[1:]
            told = one["predicted"].values[: s.k + 1]
            ax.plot(steps, values[:, : s.k], color=BLUE)
            ax.plot(steps, values[:, s.k], "--", color=ORANGE)
            ends = np.full(s.k + 1, steps[-1])
            ax.plot(ends, told, "o", mfc="none", mec=BLACK, clip_on=False, zorder=3)
            ax.set(xscale="log", yscale="log", xlabel="step", title=label)
        panels[0].set_ylabel(r"singular values of $W_1$")
        first = panels[0].lines[0]
        last = panels[0].lines[s.k]
        ring = panels[0].lines[s.k + 1]
        words = [f"the largest {s.k}", f"number {s.k + 1}", "predicted limit"]
        figure.legend([first, last, ring], words, loc="outside lower center", ncols=3)

    return draw


def finite_step_error(data: xr.Dataset, s: Settings, start: int) -> float:
    """The error of the squared singular values over lr·L(0), by which a finite step moves them.

    A step adds lr²(W2RᵀRW2ᵀ − W1ᵀRRᵀW1) to the imbalance, and the sum of lr‖gradient‖² over all
    steps is about the loss that was lost.
    """
    one = data.isel(start=start)
    off = one["values"].values[-1] ** 2 - one["predicted"].values ** 2
    return float(np.abs(off).max() / (s.lr * one["loss"].values[0]))


def drop(data: xr.Dataset, s: Settings, start: int, name: str = "values") -> float:
    """The singular value after the k-th over the k-th, at the end."""
    values = data[name].isel(start=start).values
    values = values[-1] if values.ndim == 2 else values
    return float(values[s.k] / values[s.k - 1])


def unlearned(data: xr.Dataset) -> float:
    """The part of the loss that is left, of the worst start."""
    loss = data["loss"].values
    return float((loss[:, -1] / loss[:, 0]).max())
