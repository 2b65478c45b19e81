"""Figure 8: the equilibrium does not know the step, the batch or the size."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from ..._engine.setup import Setup
from ...plot import BLACK, BLUE
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._autoencoder import setup, share, told

QUICK = {"lr": (0.01, 0.02, 0.04), "batch": (4, 10, 30), "d": (10, 20, 40)}
# In 100 dimensions lr = 0.2, S = 30 at lr = 0.1, or twice the dimension there, would diverge.
FULL = {"lr": (0.025, 0.05, 0.1), "batch": (50, 100, 200), "d": (50, 100, 200)}
NAMES = {"lr": "learning rate", "batch": "batch size S", "d": "dimension"}


def computed(what: str) -> Callable[[Settings, Lab], xr.Dataset]:
    """The runs of one panel: one setting takes several values, the others stay."""

    def compute(s: Settings, lab: Lab) -> xr.Dataset:
        parts: list[xr.Dataset] = []
        for value in s[f"{what}s"]:
            chosen = {"lr": s.lr, "batch": s.batch, "d": s.d, what: value}

            def build(value: float, seed: int, chosen: dict[str, Any] = chosen) -> Setup:
                sizes = {**chosen, "width": 2 * chosen["d"]}
                return setup(s, s.phi, seed=seed + 100 * s.key, **sizes)

            run = lab.sweep(build, {"value": [value], "seed": range(s.seeds)})
            parts.append(run.drop_vars(["step", "time"])[["norms"]].drop_attrs())
        return xr.concat(parts, "value")

    compute.__module__ = __name__  # the store hashes this room's code
    return compute


def drawn(what: str) -> Callable[[Canvas, xr.Dataset, Settings], None]:
    """The picture of one panel."""

    def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
        ax = figure.subplots()
        found = share(data)
        error = found.std("seed", ddof=1) / np.sqrt(s.seeds)
        ax.errorbar(data["value"], found.mean("seed"), error, fmt="o", color=BLUE, label="SGD")
        ax.axhline(told(s.phi, 2)[0], color=BLACK, label="noise equilibrium")
        ax.axhline(1, ls="--", color="#777777", lw=0.8, label="balance")
        ax.set(xlabel=NAMES[what], ylabel=r"$\|U\|^2/\|W\|^2$", ylim=(0.6, 1.1), xscale="log")
        ax.set_xticks(list(s[f"{what}s"]), [f"{value:g}" for value in s[f"{what}s"]])
        ax.minorticks_off()
        ax.legend(loc="upper right", ncols=3, fontsize="x-small")

    return draw


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    found = share(data).mean("seed").values
    return [
        Check(
            "largest relative error of the ratio",
            abs(found / told(s.phi, 2)[0] - 1).max(),
            high=0.03,
        ),
        Check("distance of the nearest to balance", abs(found - 1).min(), low=0.1),
    ]


def panel(letter: str, what: str, words: str) -> Figure:
    """One of the three panels."""
    return Figure(
        id=f"equilibrium.8{letter}",
        title=f"The equilibrium does not depend on the {words}",
        caption=(
            r"The ratio $\|U\|^2/\|W\|^2$ at the end of SGD on a linear autoencoder with "
            rf"$\phi_x = 0.4$, for several values of the {words} (dots: mean and standard error "
            "over seeds, last quarter of runs that last ten equilibration times each). Theory says "
            "one number for all of them (line, 0.8): the equilibrium balances the noise of the two "
            "layers, and what multiplies both drops out. Measured: 0.8 within three per cent. The "
            "dashed line is plain balance."
        ),
        compute=computed(what),
        draw=drawn(what),
        seen=seen,
        quick={
            "phi": 0.4,
            "lr": 0.02,
            "batch": 10,
            "d": 20,
            f"{what}s": QUICK[what],
            "seeds": 4,
            "spans": 10.0,
            "saves": 40,
        },
        full={"lr": 0.05, "batch": 100, "d": 100, f"{what}s": FULL[what]},
    )


FIGURES = (
    panel("a", "lr", "learning rate"),
    panel("b", "d", "dimension"),
    panel("c", "batch", "batch size"),
)
