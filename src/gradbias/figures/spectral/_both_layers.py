"""Figure 4: a second layer that does not start at zero."""

import numpy as np
import xarray as xr

from .._figure import Figure, Seen, Settings
from ._layers import compute, drawn, drop, unlearned

EQUAL, LARGER, VARIANCES = range(3)  # the starts, in the order of the settings


def labels(s: Settings) -> list[str]:
    """Titles of the panels."""
    return [f"stds {first:.2g} and {second:.2g}" for _, first, second in s.starts]


def off(data: xr.Dataset, s: Settings, start: int) -> float:
    """The relative error of the k large singular values."""
    one = data.isel(start=start)
    told = one["predicted"].values[: s.k]
    return float(np.abs(one["values"].values[-1][: s.k] / told - 1).max())


def seen(data: xr.Dataset, s: Settings) -> list[Seen]:
    bound = 2 * s.lr
    return [
        Seen("part of the loss that is left, worst start", unlearned(data), high=1e-6),
        Seen("equal scales: error of the three large σ", off(data, s, EQUAL), high=bound),
        Seen("larger W2: error of the three large σ", off(data, s, LARGER), high=bound),
        Seen("equal scales: σ₄/σ₃, rank 3", drop(data, s, EQUAL), high=0.1),
        Seen("larger W2: σ₄/σ₃, rank 3", drop(data, s, LARGER), high=0.1),
        Seen("read as variances: σ₄/σ₃, not of rank 3", drop(data, s, VARIANCES), low=0.2),
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
    quick={
        "n": 5,
        "d": 10,
        "k": 3,
        "width": 200,
        "lr": 0.02,
        "steps": 3000,
        "starts": (
            ("gaussian", 1e-3, 1e-3),
            ("gaussian", 1e-3, 1e-2),
            ("gaussian", 1e-3**0.5, 1e-2**0.5),
        ),
    },
    wide=True,
)
