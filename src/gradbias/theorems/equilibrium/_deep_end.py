"""Where SGD takes a deep linear net on fresh samples: the norms of Eq 19."""

import re
from typing import Any

import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Deep
from ...numerics.psd import power
from ...problems import Population
from ...theory.symmetry import deep_equilibrium, equilibration_time, seam_noise
from .. import _shared_hypotheses as common
from .._hypothesis import Hypothesis, kind
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Ensemble, Theorem
from . import _instances as cases
from ._deep import LR, norms_19, setup_of, weights_of
from ._facts import kappa, sgd
from ._measurements import CHANCE, draws, late

MEMBERS, FOLDS = 16, 4.0
LATE = np.concatenate([[0], np.arange(20_000, 40_001, 1000)])
RECORD = {**cases.PARAMS, "moments": cases.moments}


def far(key: int, noise: bool = True) -> Setup:
    """The teacher's weights with first and last layer scaled against each other."""
    first, middle, last = weights_of(key)
    still = setup_of(key, [2 * first, middle, last / 2])
    moves = still.dynamics if noise else Descent(LR)
    until = Until(steps=int(LATE[-1]))
    return still.replace(dynamics=moves, until=until, save_at=LATE, record=RECORD)


def ensemble(setup: Setup) -> Ensemble:
    """Many draws."""
    return draws(setup, MEMBERS)


def seen_ends(runs: Any) -> dict[str, Any]:
    """‖W_1Σx^½‖², ‖W_2‖², …, ‖Σε^½W_D‖² over members and late saves."""
    data = runs["run"]
    Sx, Se = (power(data[f"moments_{n}"].values[0, 0], 0.5) for n in ("x", "eps"))
    depth = sum(bool(re.fullmatch(r"params_W\d+", str(name))) for name in data)
    layers = [data[f"params_W{i}"].values for i in range(1, depth + 1)]
    weighted = [Sx @ layers[0], *layers[1:-1], layers[-1] @ Se]
    return {"norms": late(data, np.stack([np.sum(W * W, axis=(-2, -1)) for W in weighted], -1))}


def widths(setup: Setup) -> tuple[int, ...]:
    """Of the hidden layers."""
    dims: Any = setup.net.dims  # pyright: ignore[reportAttributeAccessIssue]
    return tuple(dims[1:-1])


def none_unused(setup: Setup) -> bool:
    """Are all hidden layers as wide as the teacher's rank? Unused units keep what they map."""
    rank = int(np.linalg.matrix_rank(setup.problem.V))  # pyright: ignore[reportAttributeAccessIssue]
    return set(widths(setup)) == {rank}


def unfinished(setup: Setup) -> float:
    """FOLDS times the time of one seam over half of the run, with the teacher's size in it."""
    problem: Any = setup.problem
    steps: Any = setup.until.steps
    time = equilibration_time(problem.sigma_x, problem.sigma_eps, kappa(setup))
    return FOLDS * time / (common.learning_rate(setup) * float(steps or 0) / 2 or 1e-300)


def misadjusted(setup: Setup) -> float:
    """κ TrΣ/4L at the predicted equilibrium."""
    problem: Any = setup.problem
    weights = deep_equilibrium(problem.V, problem.sigma_x, problem.sigma_eps, widths(setup))
    sides = seam_noise(weights, problem)
    total = sum(float(np.trace(later)) for later, _ in sides) + float(np.trace(sides[0][1]))
    return kappa(setup) * total / (4 * float(np.trace(problem.sigma_eps)))


THM54SGD = Theorem(
    "equilibrium.thm5.4.sgd",
    r"SGD takes a deep linear net to the norms of Eq 19, $c^2\mathrm{Tr}\Sigma_x$, $c^2d$, "
    r"$c^2\mathrm{Tr}\Sigma_\varepsilon$; gradient descent keeps those of the start.",
    [
        *sgd(),
        common.no_decay(),
        kind("no hidden unit is unused", none_unused),
        Hypothesis("the run is long", unfinished, 1.0),
        Hypothesis("the step is small", misadjusted, 0.5, graded=True, order="O(κ)"),
    ],
    lambda s: {"norms": norms_19(s)},
    seen_ends,
    CHANCE,
    far,
    [Control("the noise is that of minibatches", lambda key: far(key, noise=False))],
    runs=ensemble,
    nets=(Deep,),
    needs=RECORD,
    problems=(Population,),
    dynamics=(Descent,),
    source=SOURCE,
    title="SGD ends at the norms of Eq 19",
    slow=True,
)

THEOREMS = (THM54SGD,)
