"""The example study: one data set, zero loss every time, and a different minimum for each start."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import gradbias as gb
from gradbias.plot import BLUE, ORANGE

if TYPE_CHECKING:
    import matplotlib.figure

GAMMAS = (1.0, 1e-4)
WIDTHS = (22, 8, 10, 12, 12)
SCALES = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
GREY = "#666666"


def run(out: Path) -> None:
    """Run the study; write `example.png` and `example.csv` into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    spectra = {gamma: _spectrum(gamma) for gamma in GAMMAS}
    limits = {scale: _limit(scale) for scale in SCALES}
    rows = _table(spectra, limits)
    with (out / "example.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    _picture(spectra, limits).savefig(out / "example.png", dpi=160)
    for row in rows:
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(row, WIDTHS, strict=True)))
    print(f"\nwrote {out / 'example.png'} and {out / 'example.csv'}")


def _spectrum(gamma: float) -> gb.Run:
    """Two-layer net, orthogonal init of size γ: the rank of W1 that training leaves behind."""
    problem = gb.problems.gaussian(n=5, d=10, k=3, key=1, loss="half_mean")
    net = gb.TwoLayer(d=10, k=3, width=200)
    setup = gb.Setup(
        problem,
        net,
        gb.init.orthogonal(net, gamma, key=0),
        gb.Descent(lr=0.02),
        until=gb.Until(gap=1e-12, steps=20_000),
        record=[gb.observe.loss, gb.observe.singular_values("W1")],
        save_at=np.arange(0, 901, 5),
    )
    return gb.simulate(setup)


def _limit(scale: float) -> gb.Run:
    """Rank-1 net of depth 3, balanced init of norm `scale`: where gradient flow ends."""
    problem = gb.problems.gaussian(n=40, d=100, informative=20, key=0)
    net = gb.Rank1(d=100, depth=3, width=100)
    direction = np.random.default_rng(0).normal(size=100)
    theta0 = scale * direction / np.linalg.norm(direction)
    setup = gb.Setup(
        problem,
        net,
        gb.init.balanced(net, theta0),
        gb.Flow(),
        until=gb.Until(gap=1e-16, time=1e6),
    )
    return gb.simulate(setup)


def _problem(run: gb.Run) -> gb.Regression:
    assert run.setup is not None
    assert isinstance(run.setup.problem, gb.Regression)
    return run.setup.problem


def _theta(run: gb.Run) -> np.ndarray:
    assert run.theta is not None
    return run.theta


def _distance(run: gb.Run) -> float:
    return float(np.linalg.norm(_theta(run) - _problem(run).min_norm))


def _table(spectra: dict[float, gb.Run], limits: dict[float, gb.Run]) -> list[list[str]]:
    rows = [["net", "start", "ended", "excess loss", "to min-norm"]]
    named = [("two layers, gamma", spectra), ("rank-1, norm of start", limits)]
    for name, runs in named:
        for start, run in runs.items():
            problem = _problem(run)
            excess = problem.excess()(problem.as_predictor(_theta(run)))
            rows.append(
                [name, f"{start:g}", str(run.status), f"{excess:.1e}", f"{_distance(run):.3g}"]
            )
    return rows


def _picture(
    spectra: dict[float, gb.Run], limits: dict[float, gb.Run]
) -> "matplotlib.figure.Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (gamma, run), colour in zip(spectra.items(), (GREY, BLUE), strict=True):
        values = run.data["singular_values_W1"]
        style = "--" if gamma == GAMMAS[0] else "-"
        lines = left.plot(run.data["step"], values, style, color=colour, lw=1.4)
        lines[0].set_label(f"init size $\\gamma$ = {gamma:g}")
    left.set(
        xlabel="step of gradient descent",
        ylabel="singular values of $W_1$",
        title="Small init: training leaves rank 3 of 10",
        xlim=(0, 900),
        ylim=(0, None),
    )
    left.legend(frameon=False)
    right.semilogx(list(limits), [_distance(run) for run in limits.values()], "o-", color=ORANGE)
    right.set(
        xlabel="norm of the start, $\\|\\theta(0)\\|$",
        ylabel="distance of the limit to min-norm",
        title="Rank-1 net: the start decides the minimum",
        ylim=(0, None),
    )
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(10)
    return figure
