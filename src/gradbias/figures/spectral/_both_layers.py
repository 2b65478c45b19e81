"""Figure 4: a second layer that does not start at zero."""

import numpy as np
import xarray as xr

from .._figure import Check, Figure, Settings
from ._layers import SIZES, compute, drawn, drop, unlearned

STARTS = (
    ("gaussian", 1e-3, 1e-3),
    ("gaussian", 1e-3, 1e-2),
    ("gaussian", 1e-3**0.5, 1e-2**0.5),
)
EQUAL, LARGER, VARIANCES = range(3)  # the places of the starts


def labels(s: Settings) -> list[str]:
    """Titles of the panels."""
    return [f"stds {first:.2g} and {second:.2g}" for _, first, second in s.starts]


def off(data: xr.Dataset, s: Settings, start: int) -> float:
    """The relative error of the k large singular values."""
    one = data.isel(start=start)
    told = one["predicted"].values[: s.k]
    return float(np.abs(one["values"].values[-1][: s.k] / told - 1).max())


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    bound = 2 * s.lr
    return [
        Check("part of the loss that is left, worst start", unlearned(data), high=1e-6),
        Check("equal scales: error of the three large σ", off(data, s, EQUAL), high=bound),
        Check("larger W2: error of the three large σ", off(data, s, LARGER), high=bound),
        Check("equal scales: σ₄/σ₃, rank 3", drop(data, s, EQUAL), high=0.1),
        Check("larger W2: σ₄/σ₃, rank 3", drop(data, s, LARGER), high=0.1),
        Check("read as variances: σ₄/σ₃, not of rank 3", drop(data, s, VARIANCES), low=0.2),
    ]


BOTH_LAYERS = Figure(
    id="spectral.4",
    title="A small second layer changes little",
    caption=(
        "As in Figure 1a, but both layers start Gaussian; titles name the standard deviations of "
        r"$W_1$ and $W_2$. Lines: singular values of $W_1$; rings: the limit predicted for the "
        r"orthogonal start with $\gamma = $ width·std²/2 and $W_2 = 0$. For small starts, on the "
        r"left, three values grow to their rings and the others stay small, although $W_2$ is not "
        "zero and may even be larger. The text gives 0.001 and 0.01 as variances; read so, on the "
        r"right, $\gamma$ is 0.1 and the fourth value is not small: the claim holds for standard "
        "deviations."
    ),
    compute=compute,
    draw=drawn(labels),
    seen=seen,
    quick={**SIZES, "starts": STARTS},
    wide=True,
)
