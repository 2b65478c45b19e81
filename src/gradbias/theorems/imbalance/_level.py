"""Section 3.1, before Theorem 1: the imbalance's signature, and its level in special cases."""

import numpy as np

from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    at_least,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases
from ._facts import (
    BOTH,
    PLAIN,
    STEP,
    Layers,
    compressed,
    end,
    level,
    small_step,
    start,
    top_eigenvalue,
)
from ._paper import PAPER
from ._section_2 import moved_level, size_of


def _signs(now: Layers) -> np.ndarray:
    """Numbers of positive and negative eigenvalues, of the whole h × h matrix."""
    values = np.linalg.eigvalsh(now.Lam)
    zero = 1e-11 * np.sum(now.Z**2)
    return np.array([np.sum(values > zero), np.sum(values < -zero)], dtype=np.float64)


def _dependent(setup: Setup) -> float:
    """Least singular value of [V; U1] too small to tell? 0 if it is not."""
    s = np.linalg.svd(start(setup).Z, compute_uv=False)
    return 0.0 if len(s) == len(start(setup).Z) and s[-1] > 1e-3 * s[0] else 1.0


def doubled(key: int) -> Setup:
    """Two outputs with the same second layer; a single one has none."""
    params = cases.gaussian(key)
    params["W2"][:, -1] = params["W2"][:, 0] if cases.sizes(key).m > 1 else 0.0
    return cases.setup(key, params)


def predict_signature(setup: Setup) -> Claims:
    """R and m."""
    now = start(setup)
    return {"signs": np.array([now.U1.shape[0], now.V.shape[0]], dtype=float)}


def measure_signature(run: Run) -> Measurements:
    """The same at the end of the run."""
    return {"signs": _signs(compressed(setup_of(run), end(run)))}


SIGNATURE = Theorem(
    "imbalance.signature",
    r"$\Lambda$ has rank at most $m+r$, at most $r$ positive and at most $m$ negative "
    r"eigenvalues; exactly so many if the rows of $V$ and $U_1$ are independent, which needs "
    r"$h \ge m+r$.",
    hypotheses=[*PLAIN, Hypothesis("rows of V and U1 are independent", _dependent, 0.5), STEP],
    predict=predict_signature,
    measure=measure_signature,
    tolerance=1e-12,
    instances=cases.setup,
    controls=[Control("rows of V and U1 are independent", doubled)],
    dynamics=BOTH,
    title="the signature of the imbalance",
    paper=PAPER,
)


def _not_orthogonal(setup: Setup) -> float:
    size = size_of(setup)
    return float(np.linalg.norm(start(setup).product)) / size if size else 0.0


def predict_orthogonal_level(setup: Setup) -> Claims:
    U1 = start(setup).U1
    V = start(setup).V
    both = top_eigenvalue(U1 @ U1.T, len(U1)) + top_eigenvalue(V @ V.T, len(V))
    return {"c": equals(both, scale=size_of(setup))}


def measure_level(run: Run) -> Measurements:
    """C at the end of the run."""
    return {"c": level(end(run))}


ORTHOGONAL = Theorem(
    "imbalance.level_orthogonal",
    r"If $U_1(0)V(0)^T = 0$ then $c = \lambda_r(U_1U_1^T) + \lambda_m(VV^T)$ at the start, and "
    r"$c$ stays.",
    hypotheses=[
        *PLAIN,
        kind("width is at least m + r", lambda s: np.less_equal(*start(s).Z.shape)),
        Hypothesis("U1(0)V(0)ᵀ = 0", _not_orthogonal, 1e-11),
        STEP,
        small_step(moved_level),
    ],
    predict=predict_orthogonal_level,
    measure=measure_level,
    tolerance=1e-10,
    instances=cases.orthogonal_rows,
    controls=[Control("U1(0)V(0)ᵀ = 0", cases.setup)],
    dynamics=BOTH,
    title="the level of orthogonal layers",
    paper=PAPER,
)


def aligned(key: int, decay: float = 0.0) -> Setup:
    """Second layer inside the row space of the first, and much smaller."""
    problem = cases.regression(key)
    params = cases.gaussian(key, first=1.5)
    rows = np.linalg.qr(params["W1"].T @ problem.row_space)[0]
    shape = cases.sizes(key).r, cases.sizes(key).m
    params["W2"] = 0.3 * rows @ cases.draws(key, "aligned").standard_normal(shape)
    return cases.setup(key, params, problem=problem, decay=decay)


def _ahead(setup: Setup) -> float:
    """By how much the least of one layer exceeds the largest of the other."""
    U1 = start(setup).U1
    V = start(setup).V
    squares = [np.linalg.svd(x, compute_uv=False) ** 2 for x in (U1, V)]
    # Beyond the width, singular values are zero.
    low = [s[-1] if x.shape[1] >= len(x) else 0.0 for s, x in zip(squares, (U1, V), strict=True)]
    return float(max(low[0] - squares[1][0], low[1] - squares[0][0]))


def predict_aligned_level(setup: Setup) -> Claims:
    """By how much one layer is ahead of the other."""
    return {"c": at_least(_ahead(setup), scale=size_of(setup))}


ALIGNED = Theorem(
    "imbalance.level_aligned",
    r"However the row spaces lie, $c \ge \sigma_r(U_1)^2 - \sigma_1(V)^2$ and "
    r"$c \ge \sigma_m(V)^2 - \sigma_1(U_1)^2$: one layer that is larger than the other in all "
    r"directions is imbalance enough.",
    hypotheses=[
        *PLAIN,
        kind("one layer is larger", lambda s: _ahead(s) > 0),
        STEP,
        small_step(moved_level),
    ],
    predict=predict_aligned_level,
    measure=measure_level,
    tolerance=1e-10,
    instances=aligned,
    controls=[Control("there is no weight decay", lambda key: aligned(key, decay=0.5))],
    dynamics=BOTH,
    title="one layer larger than the other",
    paper=PAPER,
)

THEOREMS = (SIGNATURE, ORTHOGONAL, ALIGNED)
