"""Eq (4) and (5): Itô's formula, seen by where gradient flow takes the ends of noisy steps."""

import numpy as np
import xarray as xr

from ...dynamics import Descent
from ...nets import MLP, Diagonal
from ...noise import Isotropic
from ...theory import manifold
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Hypothesis,
    Measurements,
    Predict,
    Run,
    Runs,
    Setup,
    Theorem,
    Until,
    common,
    kind,
    setup_of,
)
from . import _instances as cases
from ._lemmas_4_3_4_5 import projector
from ._oracle import Place
from ._paper import DIAGONAL_FLOW
from ._two_steps import members

DRAWS = 128
SMALL = 1e-3  # of ‖x‖: a step
ON = 1e-8  # of ‖x‖: how far from Φ(x) a start on the manifold is


def on_manifold(key: int, noise: bool = True) -> Setup:
    """One step of isotropic noise from where gradient flow ends."""
    flow = cases.tanh_flow(key) if key % 2 else cases.diagonal_flow(key)
    x = cases.end(flow).x
    params = {name: np.asarray(p) for name, p in x.items()}
    std = SMALL * float(np.linalg.norm(cases.flat(x))) / np.sqrt(cases.size(flow))
    return flow.replace(
        params=params,
        dynamics=Descent(1.0 if noise else 0.05, Isotropic(std) if noise else None),
        until=Until(steps=1),
        save_at=[0, 1],
        record={"params": cases.RECORD["params"]},
    )


def off_manifold(key: int) -> Setup:
    """The same step from a point that is not on the manifold."""
    setup = on_manifold(key)
    away = {name: 1.2 * np.asarray(p) for name, p in setup.params.items()}
    return setup.replace(params=away)


def one_step(setup: Setup) -> dict[str, Setup | Ensemble]:
    """The step with many draws, and with one."""
    return {"run": members(setup, DRAWS), "one": setup}


def points(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    """The start, and the ends of the step, (members, D)."""
    run = runs["run"]
    assert isinstance(run, xr.Dataset)
    names = sorted(str(n) for n in run if str(n).startswith("params_") and not _is_end(str(n)))
    both = np.concatenate([run[n].values.reshape(len(run["seed"]), 2, -1) for n in names], axis=2)
    return both[0, 0], both[:, 1]


def _is_end(name: str) -> bool:
    return name.endswith("_end")


def predict_ito(setup: Setup, runs: Runs, drift: float = 1.0) -> Claims:
    """½∂²Φ[mean ΔΔᵀ] and P mean ΔΔᵀ P for the steps Δ that were drawn."""
    x, ends = points(runs)
    steps = ends - x
    square = steps.T @ steps / len(steps)
    at = cases.end(setup).x
    bend = manifold.second_derivative(at, square, residual=cases.residual(setup))
    parts = (bend.tangent, bend.normal, bend.mixed)
    P = projector(setup)
    total = sum(cases.flat(part) for part in parts)
    return {"drift": drift * total / 2, "spread": P @ square @ P}


def times(drift: float) -> Predict:
    """With a factor before the drift."""
    return lambda setup, runs: predict_ito(setup, runs, drift)


def measure_ito(runs: Runs) -> Measurements:
    """How Φ moves in the mean, beyond the tangential part of the steps, and how it spreads."""
    one = runs["one"]
    assert isinstance(one, Run)
    setup = setup_of(one)
    place = Place(setup, setup.params)
    x, ends = points(runs)
    moved = place.phi(np.concatenate([x[None], ends]))
    away = moved[1:] - moved[0]
    steps = ends - x
    along = steps - steps @ place.normal()
    return {"drift": (away - along).mean(axis=0), "spread": away.T @ away / len(away)}


def _distance(setup: Setup) -> float:
    x = cases.flat(setup.params)
    return float(np.linalg.norm(cases.flat(cases.end(setup).x) - x) / np.linalg.norm(x))


EQ5 = Theorem(
    "zeroloss.eq5",
    r"Itô's formula for $\Phi$: on the manifold noise of covariance $\Sigma$ moves $\Phi(X)$ by "
    r"$\partial\Phi\,\sigma\,dW + \frac{1}{2}\partial^2\Phi[\Sigma]\,dt$; a noisy step moves it in "
    r"the mean by $\frac{1}{2}\partial^2\Phi[\Delta\Delta^\top]$ and spreads it by "
    r"$P\,\Delta\Delta^\top P$. (In (4), off the manifold, $\partial\Phi\nabla L = 0$: Lemma C.2.)",
    hypotheses=[
        common.no_decay(),
        kind("there is isotropic noise", lambda s: _has_isotropic(s)),
        cases.few_parameters(),
        cases.reaches(),
        cases.constant_rank(),
        Hypothesis("the start is on the manifold", _distance, ON),
    ],
    predict=predict_ito,
    measure=measure_ito,
    tolerance=0.002,
    instances=on_manifold,
    controls=[
        Control("the start is on the manifold", off_manifold),
        Control("without Itô's half", on_manifold, times(2.0), formula=True),
    ],
    terms={"Itô's term": times(0.0)},
    runs=one_step,
    given=("draws",),
    nets=(Diagonal, MLP),
    dynamics=(Descent,),
    needs={"params": cases.RECORD["params"]},
    paper=DIAGONAL_FLOW,
    title="Itô's formula for where the flow ends",
)


def _has_isotropic(setup: Setup) -> bool:
    return isinstance(getattr(setup.dynamics, "noise", None), Isotropic)


THEOREMS = (EQ5,)
