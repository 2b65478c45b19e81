"""Sections 2 and 3.1, up to Theorem 1: what moves and how, the imbalance and its level."""

import numpy as np

from ...dynamics import Descent
from ...theory.imbalance import (
    Closed,
    closed_state,
    closed_step,
    closed_velocity,
    imbalance_drift,
    split,
)
from ..prelude import (
    Claim,
    Claims,
    Control,
    Erratum,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_least,
    common,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases
from ._facts import (
    BOTH,
    OF_DATA,
    PLAIN,
    SOMETHING,
    STEP,
    Layers,
    compressed,
    drift,
    end,
    errors,
    frame_of,
    level,
    norms,
    path,
    problem_of,
    pulls,
    reached,
    relative_step,
    small_step,
    start,
    top_eigenvalue,
)
from ._paper import PAPER


def states(run: Run) -> list[dict[str, np.ndarray]]:
    """The parameters at every save that was reached."""
    rows = reached(run)
    W1, W2 = (run.data[f"params_{n}"].values[rows] for n in ("W1", "W2"))
    return [{"W1": a, "W2": b} for a, b in zip(W1, W2, strict=True)]


def _stacked(parts: Closed) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in parts])


def _by_size(setup: Setup, run: Run, values: np.ndarray) -> Claim:
    """Every instant counts by its own size; E, a difference, is rounded as its terms are."""
    parts = split(problem_of(setup))
    Z = norms(path(run).Z)
    root = float(parts.sigma[0])
    terms = float(np.linalg.norm(parts.B)) + root * Z**2
    rounded = 1e-6 * parts.speed * max(root, root**3) * Z**2 * terms
    size = np.abs(values).max(axis=1) + np.maximum(rounded, 1e-300)
    return equals(values, scale=size[:, None])


def predict_velocity(setup: Setup, run: Run) -> Claims:
    problem = problem_of(setup)
    parts = split(problem)
    now = [closed_state(problem, params) for params in states(run)]
    moved = np.asarray([_stacked(closed_velocity(problem, x)) for x in now])
    loss = np.asarray([parts.min_loss + parts.weight * np.sum(x.E**2) for x in now])
    frozen = start(setup).U2
    return {
        "velocity": _by_size(setup, run, moved),
        # Labels that are zero are fitted from the start, up to rounding.
        "loss": equals(loss, scale=float(np.linalg.norm(loss)) or 1.0),
        "unseen": equals(frozen, scale=float(np.linalg.norm(setup.params["W1"])) or 1.0),
    }


def measure_velocity(run: Run) -> Measurements:
    """From the gradients of both layers, by the product rule."""
    parts = split(problem_of(setup_of(run)))
    now = path(run)
    slope = pulls(run)
    root = parts.sigma[:, None]
    rows = []
    for U1, V, gU, gV in zip(now.U1, now.V, slope.U1, slope.V, strict=True):
        E = root * (gU @ V.T + U1 @ gV.T)
        M = -root * (gU @ U1.T) * root.T
        N = -gV @ V.T
        rows.append(_stacked(Closed(E, M + M.T, N + N.T)))
    kept = reached(run)
    return {
        "velocity": np.asarray(rows),
        "loss": run.data["loss"].values[kept],
        "unseen": end(run).U2,
    }


EQ7 = Theorem(
    "imbalance.eq7",
    r"With $E = W^TY - \sqrt{S}U_1V^T$ gradient flow of $\frac{1}{2}\|Y-XUV^T\|^2$ reads "
    r"$\dot V = E^T\sqrt{S}U_1$, $\dot U_1 = \sqrt{S}EV$, $\dot U_2 = 0$; "
    r"$L = \frac{1}{2}\|E\|^2 + L^\star$; and $E$, $\sqrt{S}U_1U_1^T\sqrt{S}$, $VV^T$ move by "
    r"themselves, whatever the width.",
    hypotheses=[common.no_decay(), OF_DATA, SOMETHING],
    predict=predict_velocity,
    measure=measure_velocity,
    tolerance=1e-8,
    instances=cases.setup,
    controls=[Control("there is no weight decay", cases.decaying)],
    given=("path",),
    dynamics=BOTH,
    errata=[
        Erratum(
            "Theorem 2 and App. C",
            r"$\lambda_n(\Sigma_x)$, for $X$ of full rank",
            r"$\lambda_r(\Sigma_x)$ with $r$ the rank of $X$, as in Theorem 1",
            "misprint",
            quote=r"||E(t)||_F \le \exp(-\lambda_n(\Sigma_x)ct) ||E(0)||_F",
            note="r = n where X has full rank, which Section 2 assumes in passing.",
        )
    ],
    title="the equations of motion",
    paper=PAPER,
)


def _size(setup: Setup) -> float:
    """‖[V; U1]‖²: what the imbalance is a difference of."""
    return float(np.sum(start(setup).Z ** 2))


def moved_level(setup: Setup) -> float:
    """What a finite step does to the level, of the layers' squares."""
    return drift(setup) / _size(setup) if _size(setup) else 0.0


def predict_conserved(setup: Setup, run: Run) -> Claims:
    count = int(np.sum(reached(run)))
    first = compressed(setup, start(setup)).Lam
    return {
        "imbalance": equals(np.stack([first] * count), scale=_size(setup)),
        "outside": equals(0.0, scale=_size(setup)),
    }


def measure_conserved(run: Run) -> Measurements:
    """Along the path; for wide nets also that nothing leaves the rows of the start."""
    now = path(run)
    setup = setup_of(run)
    Q = frame_of(setup)
    outside = now.Z - (now.Z @ Q) @ Q.T if Q.shape[0] > Q.shape[1] else np.zeros(1)
    return {
        "imbalance": compressed(setup, now).Lam,
        "outside": float(np.sum(outside**2)),
    }


def large_step(key: int) -> Setup:
    """A step beyond lr · λ_max = 1, below where descent diverges."""
    return cases.descent(key, 0.013 / relative_step(cases.descent(key, 0.01)))


INVARIANCE = Theorem(
    "imbalance.invariance",
    r"Gradient flow keeps the imbalance $\Lambda = U_1^TU_1 - V^TV$, all of its entries.",
    hypotheses=[*PLAIN, STEP, small_step(moved_level)],
    predict=predict_conserved,
    measure=measure_conserved,
    tolerance=1e-10,
    instances=cases.setup,
    controls=[
        Control("lr · λ_max of the kernel is at most 1", large_step),
        Control("there is no weight decay", cases.decaying),
    ],
    given=("number of saves",),
    dynamics=BOTH,
    title="the imbalance is conserved",
    paper=PAPER,
)


def short(key: int, lr: float = 0.05, momentum: float = 0.0) -> Setup:
    """The first steps of gradient descent, all of them saved."""
    at = np.arange(cases.SAVES)
    dynamics = Descent(lr, momentum=momentum)
    return cases.setup(key, dynamics=dynamics, until=Until(steps=int(at[-1])), save_at=at)


def predict_steps(setup: Setup, run: Run) -> Claims:
    problem = problem_of(setup)
    lr = common.learning_rate(setup)
    before = states(run)[:-1]
    Q = frame_of(setup)
    moved = [Q.T @ imbalance_drift(problem, params, lr) @ Q for params in before]
    after = [closed_step(problem, closed_state(problem, params), lr) for params in before]
    return {
        # A drift is a difference of numbers of the size of the layers' squares.
        "drift": equals(np.asarray(moved), scale=_size(setup)),
        "closed": np.asarray([_stacked(x) for x in after]),
    }


def measure_steps(run: Run) -> Measurements:
    now = path(run)
    setup = setup_of(run)
    root = split(problem_of(setup)).sigma[:, None]
    E = errors(problem_of(setup), now)
    M = root * (now.U1 @ np.swapaxes(now.U1, 1, 2)) * root.T
    N = now.V @ np.swapaxes(now.V, 1, 2)
    closed = np.asarray([_stacked(Closed(*x)) for x in zip(E, M, N, strict=True)])
    return {"drift": np.diff(compressed(setup, now).Lam, axis=0), "closed": closed[1:]}


def every_step(setup: Setup) -> bool:
    """Are all steps saved, from the first on?"""
    at = np.asarray(setup.save_at)
    return len(at) > 1 and bool(np.array_equal(at, np.arange(len(at))))


DESCENT = Theorem(
    "imbalance.descent",
    r"A step $\eta$ of gradient descent adds $\eta^2(\nabla_{U_1}^T\nabla_{U_1} - "
    r"\nabla_V^T\nabla_V)$ to the imbalance, exactly, and $E$, $\sqrt{S}U_1U_1^T\sqrt{S}$ and "
    r"$VV^T$ after it are polynomials in the same three before it.",
    hypotheses=[
        *PLAIN,
        kind("the step is constant", lambda s: np.isfinite(common.learning_rate(s))),
        kind("every step is saved", every_step),
    ],
    predict=predict_steps,
    measure=measure_steps,
    tolerance=1e-12,
    instances=short,
    controls=[Control("there is no momentum", lambda key: short(key, momentum=0.5))],
    given=("path",),
    dynamics=(Descent,),
    title="what a step does to the imbalance",
    paper=PAPER,
    own=True,
)


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
    """Both outputs with the same second layer."""
    params = cases.gaussian(key)
    params["W2"][:, 1] = params["W2"][:, 0]
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


def orthogonal_rows(key: int) -> Setup:
    """U1Vᵀ = 0: the second layer avoids what the first one uses."""
    problem = cases.regression(key)
    params = cases.gaussian(key)
    used = np.linalg.qr(params["W1"].T @ problem.row_space)[0]
    params["W2"] = params["W2"] - used @ (used.T @ params["W2"])
    return cases.setup(key, params, problem=problem)


def _not_orthogonal(setup: Setup) -> float:
    size = _size(setup)
    return float(np.linalg.norm(start(setup).product)) / size if size else 0.0


def predict_orthogonal_level(setup: Setup) -> Claims:
    U1 = start(setup).U1
    V = start(setup).V
    both = top_eigenvalue(U1 @ U1.T, len(U1)) + top_eigenvalue(V @ V.T, len(V))
    return {"c": equals(both, scale=_size(setup))}


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
    instances=orthogonal_rows,
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
    params["W2"] = 0.3 * rows @ cases.draws(key, "aligned").standard_normal((cases.R, cases.M))
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
    return {"c": at_least(_ahead(setup), scale=_size(setup))}


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

THEOREMS = (EQ7, INVARIANCE, DESCENT, SIGNATURE, ORTHOGONAL, ALIGNED)
