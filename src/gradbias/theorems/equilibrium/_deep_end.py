"""Where SGD takes a deep linear net on fresh samples: the norms of Eq 19."""

import re

import numpy as np
import xarray as xr

from ...dynamics import Descent
from ...nets import Deep
from ...numerics.psd import power
from ...problems import Population
from ...theory.symmetry import deep_equilibrium, equilibration_time, seam_noise
from ..prelude import (
    Control,
    Ensemble,
    Hypothesis,
    Measurements,
    Runs,
    Setup,
    Theorem,
    Until,
    common,
    kind,
)
from . import _instances as cases
from ._deep import LR, norms_19, sgd_from, weights_of
from ._factorisation_end import both_steps, to_no_step
from ._facts import kappa, sgd
from ._measurements import EXACT
from ._paper import PAPER

MEMBERS = 160
FOLDS = 4.0
LATE = np.concatenate([[0], np.arange(20_000, 40_001, 1000)])
RECORD = {**cases.PARAMS, "moments": cases.moments}


def far(key: int, noise: bool = True) -> Setup:
    """The teacher's weights with first and last layer scaled against each other."""
    first, middle, last = weights_of(key)
    still = sgd_from(key, [2 * first, middle, last / 2])
    moves = still.dynamics if noise else Descent(LR)
    until = Until(steps=int(LATE[-1]))
    return still.replace(dynamics=moves, until=until, save_at=LATE, record=RECORD)


def both(setup: Setup) -> dict[str, Ensemble]:
    """Many draws at this step and at half of it."""
    return both_steps(setup, MEMBERS)


def read_norms(run: xr.Dataset) -> np.ndarray:
    """‖W_1Σx^½‖², ‖W_2‖², …, ‖Σε^½W_D‖², (members, saves, D)."""
    Sx, Se = (power(run[f"moments_{n}"].values[0, 0], 0.5) for n in ("x", "eps"))
    depth = sum(bool(re.fullmatch(r"params_W\d+", str(name))) for name in run)
    layers = [run[f"params_W{i}"].values for i in range(1, depth + 1)]
    weighted = [Sx @ layers[0], *layers[1:-1], layers[-1] @ Se]
    return np.stack([np.sum(W * W, axis=(-2, -1)) for W in weighted], -1)


def measure_ends(runs: Runs) -> Measurements:
    """These norms over members and late saves, for a step that goes to 0."""
    return {"norms": to_no_step(runs, read_norms)}


def widths(setup: Setup) -> tuple[int, ...]:
    """Of the hidden layers."""
    assert isinstance(setup.net, Deep)
    return tuple(setup.net.dims[1:-1])


def none_unused(setup: Setup) -> bool:
    """Are all hidden layers as wide as the teacher's rank? Unused units keep what they map."""
    rank = int(np.linalg.matrix_rank(common.population(setup).V))
    return set(widths(setup)) == {rank}


def unfinished(setup: Setup) -> float:
    """FOLDS times the time of one seam over half of the run, with the teacher's size in it."""
    problem = common.population(setup)
    time = equilibration_time(problem.sigma_x, problem.sigma_eps, kappa(setup))
    return (
        FOLDS * time / (common.learning_rate(setup) * float(setup.until.steps or 0) / 2 or 1e-300)
    )


def misadjusted(setup: Setup) -> float:
    """Half of κ TrΣ/4L at the predicted equilibrium, squared."""
    problem = common.population(setup)
    weights = deep_equilibrium(problem.V, problem.sigma_x, problem.sigma_eps, widths(setup))
    sides = seam_noise(weights, problem)
    total = sum(float(np.trace(later)) for later, _ in sides) + float(np.trace(sides[0][1]))
    return (kappa(setup) * total / (8 * float(np.trace(problem.sigma_eps)))) ** 2


THM54SGD = Theorem(
    "equilibrium.thm5.4.sgd",
    r"SGD takes a deep linear net to the norms of Eq 19, $c^2\mathrm{Tr}\Sigma_x$, $c^2d$, "
    r"$c^2\mathrm{Tr}\Sigma_\varepsilon$; gradient descent keeps those of the start.",
    hypotheses=[
        *sgd(),
        common.no_decay(),
        kind("no hidden unit is unused", none_unused),
        Hypothesis("the run is long", unfinished, 1.0),
        Hypothesis("the step is small", misadjusted, 0.5, graded=True, order="O(κ²)"),
    ],
    predict=lambda s: {"norms": norms_19(s)},
    measure=measure_ends,
    tolerance=EXACT,
    instances=far,
    controls=[Control("the noise is that of minibatches", lambda key: far(key, noise=False))],
    runs=both,
    nets=(Deep,),
    needs=RECORD,
    problems=(Population,),
    dynamics=(Descent,),
    paper=PAPER,
    title="SGD ends at the norms of Eq 19",
    slow=True,
)

THEOREMS = (THM54SGD,)
