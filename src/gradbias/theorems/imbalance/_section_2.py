"""Section 2: what moves and how, and the imbalance that does not."""

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
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
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
    compressed,
    drift,
    end,
    errors,
    frame_of,
    norms,
    path,
    problem_of,
    pulls,
    reached,
    relative_step,
    small_step,
    start,
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


def size_of(setup: Setup) -> float:
    """‖[V; U1]‖²: what the imbalance is a difference of."""
    return float(np.sum(start(setup).Z ** 2))


def moved_level(setup: Setup) -> float:
    """What a finite step does to the level, of the layers' squares."""
    return drift(setup) / size_of(setup) if size_of(setup) else 0.0


def predict_conserved(setup: Setup, run: Run) -> Claims:
    count = int(np.sum(reached(run)))
    first = compressed(setup, start(setup)).Lam
    return {
        "imbalance": equals(np.stack([first] * count), scale=size_of(setup)),
        "outside": equals(0.0, scale=size_of(setup)),
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
        "drift": equals(np.asarray(moved), scale=size_of(setup)),
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

THEOREMS = (EQ7, INVARIANCE, DESCENT)
