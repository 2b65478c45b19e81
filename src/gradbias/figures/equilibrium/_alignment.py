"""Figure 2, right: the two sides of the balance, for label noise of many shapes."""

import numpy as np
import xarray as xr

from ... import theory
from ..._engine.setup import Setup
from ...plot import BLACK, BLUE, ORANGE
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from . import _factorisation as two

SIDES = {"outputs": r"$\mathrm{Tr}\,U^T\Gamma_UU$", "inputs": r"$\mathrm{Tr}\,W\Gamma_WW^T$"}

LOOKS = {"SGD": (BLUE, "o", "x"), "GD": (ORANGE, "s", "+")}


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    saves = np.concatenate([[0], np.linspace(0.75, 1, 6) * s.steps]).astype(int)

    def build(how: str, a: float) -> Setup:
        batch = s.batches[0] if how == "SGD" else None
        return two.setup(s, batch, saves, a, key=list(s.stds).index(a))

    run = lab.sweep(build, {"how": ["SGD", "GD"], "a": list(s.stds)})
    traces = np.array([[mean_sides(s, a, run.sel(how=how, a=a)) for a in s.stds] for how in LOOKS])
    return xr.Dataset(
        {
            "trace": (("how", "a", "side"), traces),
            "told": ("a", [equilibrium(s, a) for a in s.stds]),
        },
        {"how": list(LOOKS), "a": list(s.stds), "side": list(SIDES)},
    )


def mean_sides(s: Settings, a: float, run: xr.Dataset) -> list[float]:
    """The traces of the two sides over the last saves."""
    data = two.problem(s, a)
    pairs = zip(run["params_W1"].values[1:], run["params_W2"].values[1:], strict=True)
    found = [[np.trace(side) for side in two.sides(data, *pair)] for pair in pairs]
    return np.mean(found, axis=0).tolist()


def equilibrium(s: Settings, a: float) -> float:
    """The common trace at the noise equilibrium of the best predictor."""
    data = two.problem(s, a)
    U, W = theory.symmetry.factorisation_equilibrium(data, s.width)
    return float(np.trace(two.sides(data, W.T, U.T)[0]))


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    ax.plot(data["a"], data["told"], color=BLACK, label="both, predicted for SGD")
    for how, (colour, *marks) in LOOKS.items():
        for (side, words), marker in zip(SIDES.items(), marks, strict=True):
            values = data["trace"].sel(how=how, side=side)
            ax.plot(data["a"], values, marker, color=colour, mfc="none", label=f"{how}: {words}")
    ax.set(xlabel="a: standard deviation of half of the label noise", ylabel="trace at the end")
    ax.set_ylim(0, None)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    outputs, inputs = (data["trace"].sel(side=side) for side in SIDES)
    apart = abs(outputs / inputs - 1)
    error = abs(data["trace"].sel(how="SGD") / data["told"] - 1).max()
    return [
        Check(
            "SGD: largest difference of the two traces",
            float(apart.sel(how="SGD").max()),
            high=0.06,
        ),
        Check("GD: smallest difference", float(apart.sel(how="GD").min()), low=0.15),
        Check("SGD: largest error of the predicted trace", float(error), high=0.1),
    ]


TRACES = Figure(
    id="equilibrium.2c",
    title="The two traces meet under SGD, not under GD",
    caption=(
        r"The two sides of the balance, $\mathrm{Tr}\,U^T\Gamma_UU$ and "
        r"$\mathrm{Tr}\,W\Gamma_WW^T$, at the end of training, when half of the label noise has "
        "standard deviation $a$ and the other half 1. The line is their common value at the noise "
        "equilibrium of the least-squares predictor, computed without a step. SGD makes the traces "
        "equal, a few per cent above the line (its residuals fluctuate); gradient descent from the "
        "same start leaves them apart, both above. As we read it, gradient descent ends an order "
        r"of magnitude away; measured, that holds for the norm of $\Delta$ (panel a), not for the "
        "traces."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={**two.SIZES, "stds": (0.3, 0.6, 1.0, 1.5, 2.0)},
    height=1.0,
)
