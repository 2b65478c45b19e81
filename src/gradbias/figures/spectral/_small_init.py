"""Figure 1a: the scale of the init decides the rank of the first layer."""

import math

import xarray as xr

from .._figure import Check, Figure, Settings
from ._layers import SIZES, compute, drawn, drop, finite_step_error, unlearned

STARTS = (
    ("orthogonal", 1.0, 0.0),
    ("orthogonal", 1e-4, 0.0),
    ("gaussian", 0.01, 0.0),
    ("gaussian", 0.1, 0.0),
)
LARGE, SMALL, NARROW, BROAD = range(4)  # the places of the starts


def labels(s: Settings) -> list[str]:
    """Titles of the panels."""
    words = {"orthogonal": r"orthogonal, $\gamma$ = {:g}", "gaussian": "Gaussian, std {:g}"}
    return [words[kind].format(first) for kind, first, _ in s.starts]


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    narrow = float(data["values"][NARROW, -1, s.k])
    tail = narrow / math.sqrt(2 * float(data["gamma"][NARROW]))
    edge = math.sqrt(s.d / s.width)  # a Gaussian matrix has its singular values within 1 ± this
    small = drop(data, s, SMALL) / drop(data, s, SMALL, "predicted")
    return [
        Check("part of the loss that is left, worst start", unlearned(data), high=1e-6),
        Check("large γ: error of σ² over lr·L(0)", finite_step_error(data, s, LARGE), high=1),
        Check("small γ: error of σ² over lr·L(0)", finite_step_error(data, s, SMALL), high=1),
        Check("small γ: σ₄/σ₃ over its prediction", small, 0.9, 1.1),
        Check("small γ: σ₄/σ₃, rank 3", drop(data, s, SMALL), high=0.1),
        Check("large γ: σ₄/σ₃, full rank", drop(data, s, LARGE), low=0.5),
        Check("Gaussian of std 0.01: σ₄ over √(2γ)", tail, 1 - 1.2 * edge, 1 + 1.2 * edge),
        Check("Gaussian of variance 0.01: σ₄/σ₃, full rank", drop(data, s, BROAD), low=0.5),
    ]


SMALL_INIT = Figure(
    id="spectral.1a",
    title="A small init makes the first layer low-rank",
    caption=(
        "A two-layer linear net of width 200 learns three outputs by gradient descent. Lines: the "
        "largest four singular values of the first layer; rings: their limit under gradient flow "
        r"by Corollary 3.1, $\sigma_i(W_1)^2 = \gamma + \sqrt{\sigma_i(\beta^*)^2+\gamma^2}$, "
        r"computed without a step. For small $\gamma$ three values grow and the fourth stays at "
        r"$\sqrt{2\gamma}$; for $\gamma = 1$ all are large. Both agree up to the effect of a "
        r"finite step, at most $\mathrm{lr}\cdot L(0)$ in $\sigma^2$. A Gaussian start is close "
        r"to $\gamma = $ width·std²/2 if 0.01, as we read it, is its standard deviation; as a "
        "variance, it gives full rank."
    ),
    compute=compute,
    draw=drawn(labels),
    seen=seen,
    quick={**SIZES, "starts": STARTS},
    default=True,
    wide=True,
)
