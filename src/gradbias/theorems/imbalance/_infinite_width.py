"""Infinitely wide nets: the limit, and how fast it is approached."""

import math

import numpy as np
import scipy.stats
import xarray as xr

from ... import observe
from ...nets import TwoLayer
from ...numerics.host_rng import generator
from ...theory.imbalance import InfiniteWidth, infinite_width_limit, split
from ..prelude import (
    Control,
    Ensemble,
    Measurements,
    Setup,
    Theorem,
    Told,
    common,
    fact,
)
from . import _instances as cases
from ._facts import BOTH, PLAIN, STEP, drift, problem_of, small_step
from ._facts_gaussian import GAUSSIAN, HALF, entries, width
from ._paper import OF_WIDTH

WIDTHS = (10**6, 10**8, 10**12)
DRAWS = 8


@fact
def infinite(setup: Setup) -> InfiniteWidth:
    """The limit of infinite width."""
    return infinite_width_limit(problem_of(setup))


def triangle(normals: np.ndarray, h: int) -> np.ndarray:
    """T with TTᵀ = ZZᵀ for a Gaussian Z of h columns, exactly (Bartlett), (q, q).

    The same normals make the same draw at every width, up to what the width changes.
    """
    q = len(normals)
    left = h - np.arange(q)
    uniform = scipy.stats.norm.cdf(np.diag(normals))
    return np.tril(normals, -1) + np.diag(np.sqrt(scipy.stats.chi2.ppf(uniform, left)))


def much_wider(setup: Setup) -> Ensemble:
    """Nets with as many hidden units as rows, which move as draws of the widths do."""
    d = problem_of(setup).d
    k = problem_of(setup).k
    net = TwoLayer(d, k, k + d)
    # What chance makes of the variance is not the law's: only a control has another one.
    seen = float(np.sqrt(np.mean(entries(setup) ** 2) * width(setup)))
    spread = 1.0 if HALF.check(setup).met else seen

    def build(width: int, draw: int) -> Setup:
        rng = generator(setup.key * DRAWS + int(draw), "theorems.imbalance infinite width")
        T = triangle(rng.standard_normal((k + d, k + d)), int(width))
        T = spread / math.sqrt(float(width)) * T
        return setup.replace(
            net=net,
            params={"W1": T[k:], "W2": T[:k].T},
            record={"params": observe.params},
            save_at=[setup.save_at[-1]],
        )

    return Ensemble(build, {"width": WIDTHS, "draw": range(DRAWS)})


def predict_gram(setup: Setup) -> Told:
    """VVᵀ and its trace at infinite width, and the order in the width of what is missing."""
    exact = infinite(setup)
    values = {"VVᵀ": exact.end.N, "trace": exact.trace, "order in h": -0.5}
    return Told(values, exact.residual / exact.trace)


def fixed_kernel(setup: Setup) -> Told:
    """As if VVᵀ stayed what it was."""
    m = problem_of(setup).k
    return Told({"VVᵀ": np.eye(m), "trace": float(m), "order in h": -0.5})


def measure_gram(members: xr.Dataset) -> Measurements:
    """Of the widest nets; the order from how fast the draws of all widths close in on them."""
    W2 = members["params_W2_end"].transpose("width", "draw", ...).values
    grams = np.swapaxes(W2, -1, -2) @ W2
    widest = grams[-1].mean(axis=0)
    away = np.sqrt(np.mean((grams - widest) ** 2, axis=(1, 2, 3)))
    order = np.log(away[1] / away[0]) / math.log(WIDTHS[1] / WIDTHS[0])
    return {"VVᵀ": widest, "trace": float(np.trace(widest)), "order in h": float(order)}


INFINITE = Theorem(
    "imbalance.infinite_width",
    r"As $h \to \infty$ with entries from $N(0, 1/h)$, $E$, $\sqrt{S}U_1U_1^T\sqrt{S}$ and $VV^T$ "
    r"follow a deterministic path from $(B, S, I)$, not that of a fixed kernel, up to "
    r"$O(h^{-1/2})$, and $\|\Theta(\infty)-\Theta^\star\|_F^2$ is "
    r"$(D-r)\operatorname{tr}V(\infty)V(\infty)^T/h$ on average.",
    hypotheses=[
        *PLAIN,
        GAUSSIAN,
        HALF,
        STEP,
        small_step(lambda s: drift(s) + common.learning_rate(s) * s_rate(s)),
    ],
    predict=predict_gram,
    measure=measure_gram,
    # Of eight draws at a width of 10¹², and of the next order in h^(−½).
    tolerance={"VVᵀ": 1e-4, "trace": 1e-4, "order in h": 4e-3},
    instances=cases.wide,
    controls=[
        Control("their variance is 1/h", lambda key: cases.wide(key, stretch=3.0)),
        Control("the kernel stays what it was", cases.wide, fixed_kernel, formula=True),
    ],
    runs=much_wider,
    dynamics=BOTH,
    title="infinitely wide nets",
    paper=OF_WIDTH,
)


def s_rate(setup: Setup) -> float:
    """The rate of the infinitely wide kernel at its start, 2λ_1 in the problem's time."""
    if not common.is_descent(setup):
        return 0.0
    parts = split(problem_of(setup))
    return float(2 * parts.speed * parts.S[0])


THEOREMS = (INFINITE,)
