"""The distribution of the bias: Section 3.2 before its bounds."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import scipy.stats
import xarray as xr

from ... import observe
from ...nets import TwoLayer
from ...numerics.host_rng import generator
from ...problems import Population, Regression
from ...theory.imbalance import ChiSquareMixture, bias_law, split
from ..prelude import (
    Control,
    Ensemble,
    Measured,
    Measurements,
    Setup,
    Theorem,
    Told,
    Undecided,
    Until,
    common,
    equals,
    fact,
    kind,
    measured,
)
from . import _instances as cases
from ._facts import BOTH, QUIET, SOMETHING, norms, problem_of, start
from ._facts_gaussian import GAUSSIAN
from ._paper import OF_WIDTH
from ._sections_3_1_3_2 import UNSEEN, shaken

# Draws that fill the space of U2 evenly, in blocks that know nothing of each other: each draw is
# Gaussian by itself, a block's mean is far nearer to the expectation than that of so many
# independent draws, and the blocks tell how near.
BLOCKS = 8
NUMBERS = 2**17  # of U2 in all draws together: of large nets few draws are enough
MOST = 512
LEAST = 8
AT = np.array([0.3, 0.8])  # of the Laplace transform, over the mean square
# to stop at; and what an unfinished fit may leave, of the distance
GAP = 1e-24
ARRIVED = 1e-2
LARGEST = 1e70  # of numbers whose fourth power is one, too
ROUNDING = 1e-20  # of a squared distance: that of its numbers is 1e-10 of the layers


LawOf = Callable[[Regression | Population, Mapping[str, np.ndarray], float], ChiSquareMixture]


@fact
def _spread(setup: Setup) -> float:
    """The standard deviation of U2."""
    return float(np.sqrt(np.mean(start(setup).U2 ** 2)))


def _to_the_end(setup: Setup) -> Setup:
    """The same, but closer to the limit that the law is about: an ensemble of its own may be."""
    until = setup.until
    if until.gap is None or until.gap <= GAP:
        return setup
    limits = {"steps": until.steps, "time": until.time, "check_every": until.check_every}
    return setup.replace(until=Until(gap=GAP, **limits))


def _misfits(problem: Regression | Population, members: xr.Dataset) -> np.ndarray:
    """How far the members still are from fitting, in the row space."""
    theta = members["params_W1_end"].values @ members["params_W2_end"].values
    return norms(problem.row_space.T @ (theta - problem.as_predictor(problem.min_norm)))


def draws(shape: tuple[int, ...]) -> int:
    """How many in a block, a power of two."""
    wanted = min(max(NUMBERS // (BLOCKS * max(math.prod(shape), 1)), LEAST), MOST)
    return int(2 ** math.floor(math.log2(wanted)))


def even_normals(key: int, block: int, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal arrays (draws, …), by a scrambled Sobol sequence."""
    rng = generator(key * BLOCKS + block, "theorems.imbalance U2")
    size = math.prod(shape)
    count = draws(shape)
    if size > scipy.stats.qmc.Sobol.MAXDIM:
        return rng.standard_normal((count, *shape))
    points = scipy.stats.qmc.Sobol(size, rng=rng).random(count)
    return np.reshape(scipy.stats.norm.ppf(points), (count, *shape))


def redrawn(setup: Setup) -> Ensemble:
    """The same start with fresh draws of what the data do not see.

    In the frame of what they do see, V first: no other part of U2 ever reaches the outputs.
    """
    parts = split(problem_of(setup))
    std = _spread(setup)
    whole = start(setup)
    frame = np.linalg.qr(whole.Z.T)[0]
    shape = (len(whole.U2), frame.shape[1])
    visible = parts.Phi1 @ (whole.U1 @ frame)
    last = (whole.V @ frame).T
    net = TwoLayer(problem_of(setup).d, problem_of(setup).k, len(last))
    away = observe.distance_to(problem_of(setup).min_norm)
    sharper = _to_the_end(setup)

    blocks = [even_normals(setup.key, block, shape[::-1]) for block in range(BLOCKS)]

    def build(block: int, draw: int) -> Setup:
        hidden = std * blocks[int(block)][int(draw)].T
        params = {"W1": visible + parts.Phi2 @ hidden, "W2": last}
        return sharper.replace(
            net=net,
            params=params,
            record={"away": away, "params": observe.params},
            save_at=[setup.save_at[-1]],
            key=setup.key,
        )

    return Ensemble(build, {"block": range(BLOCKS), "draw": range(draws(shape))})


def predict_law(setup: Setup, members: xr.Dataset) -> Told:
    """Mean and Laplace transform of the χ² mixture, for the second layers at the end."""
    return _told(setup, members, bias_law)


def without_angles(setup: Setup, members: xr.Dataset) -> Told:
    """As if V(∞) were of rank one: of the same mean."""

    def rank_one(
        problem: Regression | Population, params: Mapping[str, np.ndarray], alpha: float
    ) -> ChiSquareMixture:
        law = bias_law(problem, params, alpha)
        return ChiSquareMixture([float(np.sum(law.weights))], law.dof)

    return _told(setup, members, rank_one)


def _told(setup: Setup, members: xr.Dataset, law_of: LawOf) -> Told:
    problem = problem_of(setup)
    ends = _flat(members["params_W2_end"].values, 2)
    h = ends.shape[1]
    first = start(setup).V
    away = np.maximum(np.ravel(members["away_end"].values), 1e-300)
    if not max(np.abs(ends).max(), away.max()) < LARGEST:  # or NaN
        raise Undecided("some draws of the start diverge: a smaller step would decide")
    alpha = -math.log(_spread(setup)) / math.log(h)
    W1 = np.zeros((problem.d, h))  # not looked at
    law = law_of(problem, {"W1": W1, "W2": ends[0]}, alpha)
    # Second layers may vanish, and distances with them.
    least = ROUNDING * max(_spread(setup) * float(np.linalg.norm(start(setup).Z)), 1e-70) ** 2
    values = {
        "mean square": equals(law.mean, scale=max(law.mean, least)),
        "Laplace transform": _transform(law),
        # It may go to zero: then it is compared with where it came from.
        "second layer": equals(0.0, scale=max(float(np.abs(x).max()) for x in (ends[0], first))),
    }
    # Members that have not converged are further away than V says.
    left = float(np.max(np.ravel(_misfits(problem, members)) / away))
    return Told(values, residual=0.0 if left <= ARRIVED else left)


def _transform(law: ChiSquareMixture) -> np.ndarray:
    """E exp(−a·x/E x) of the mixture, for the two a."""
    relative = law.weights / max(law.mean, 1e-300)
    return np.prod((1 + 2 * np.outer(AT, relative)) ** (-law.dof / 2), axis=1)


def _flat(values: np.ndarray, ndim: int) -> np.ndarray:
    """Blocks and draws as one axis."""
    return np.reshape(values, (-1, *values.shape[values.ndim - ndim :]))


def measure_law(members: xr.Dataset) -> Measurements:
    """The same of the members; the spread over blocks is their error."""
    squares = members["away_end"].values ** 2
    ends = _flat(members["params_W2_end"].values, 2)
    relative = squares / max(float(np.mean(squares)), 1e-300)
    decays = np.exp(-AT * relative[..., None]).mean(axis=1)
    return {
        "mean square": _mean(squares.mean(axis=1)),
        "Laplace transform": _mean(decays),
        "second layer": float(np.abs(ends - ends[0]).max()),
    }


def _mean(blocks: np.ndarray) -> Measured:
    spread = np.std(blocks, axis=0, ddof=1) / math.sqrt(len(blocks))
    return measured(np.mean(blocks, axis=0), standard_error=spread)


BIAS_LAW = Theorem(
    "imbalance.bias_law",
    r"For a Gaussian start, given $V(\infty)$ with singular values $s_j$, the squared distance to "
    r"the solution of least norm is distributed as $h^{-2\alpha}\sum_j s_j^2\chi^2_{D-r}$: "
    r"$U_2$ takes no part in the motion of $V$.",
    hypotheses=[
        common.no_decay(),
        QUIET,
        SOMETHING,
        UNSEEN,
        kind("width is at least 2", lambda s: start(s).V.shape[1] > 1),
        GAUSSIAN,
    ],
    predict=predict_law,
    measure=measure_law,
    # The second layer is the same in all draws.
    tolerance={"mean square": 1e-3, "Laplace transform": 1e-3, "second layer": 1e-8},
    instances=cases.several_outputs,
    controls=[Control("there is no noise", shaken)],
    runs=redrawn,
    given=("second layer at the end",),
    terms={"all singular values of V(∞) but one": without_angles},
    dynamics=BOTH,
    slow=True,
    title="the distribution of the bias",
    paper=OF_WIDTH,
    own=True,
)

THEOREMS = (BIAS_LAW,)
