"""Does an own noise law draw what it says, and say what it draws?"""

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from ..dynamics import gradient
from ..nets import ChainNet, Deep, LinearNet, Net
from ..noise import DataNoise, Noise, Replay
from ..numerics import checks
from ..numerics.counter_rng import seed, stream
from ..numerics.host_rng import generator
from ..numerics.precision import host
from ..numerics.types import PyTree
from ..problems import Batch, Population, Problem, QuadraticProblem, Samples
from ..problems.base import FiniteData
from ._net_tracing import any_promotion, check_fields, refuse_class, relative
from ._noise_closure import check_closure
from ._noise_draws import Gradients, RowEffects, claimed_root, drawn, effect
from ._noise_moments import claimed_moments, fits_problem
from ._noise_statistics import (
    LARGEST,
    ClaimedMoments,
    Directions,
    against_moments,
    between,
    directions,
    far,
)
from ._report import Notes, Report, said

SAME = 1e-10
DENSE = 200  # parameters up to which σ and Σ are looked at as matrices


@host
def check_noise(
    noise: Noise,
    problem: Problem,
    net: Net | None = None,
    params: PyTree = None,
    draws: int = 20_000,
    raise_on_error: bool = True,
    key: int = 0,
) -> Report:
    """Find what is wrong with an own noise law: one line in its author's tests.

    Looks at shapes, precision and whether it can be compiled; at draws of weights and label noise
    against `moments` (mean and covariance, entry by entry for up to 12 samples); at whether steps
    and runs are independent; at `batch` against `draw`; at the gradient: unbiased, of the
    covariance that `kick`, `factor` and `covariance` claim; and at the exact closure.

    What it calls wrong is more than 6 standard errors away. With 20 000 draws that finds an error
    of about 6 % in a Gaussian variance; four times as many find one of 3 %.

    Args:
        noise: what is checked.
        problem: what it acts on.
        net: whose gradients are looked at; a linear predictor if None.
        params: where, for that net; away from a minimum, where gradients vanish.
        draws: how many steps are drawn.
        raise_on_error: raise a ValueError that lists all findings, if there are any.
        key: an integer; decides the draws.
    """
    refuse_class("noise", noise, Noise)
    if isinstance(noise, Replay):
        raise ValueError("noise must be a law, got Replay: recorded draws have no moments")
    refuse_class("problem", problem, Problem)
    draws = checks.integer("draws", draws, at_least=100)
    key = checks.integer("key", key)
    net, params = _model(problem, net, params, key)
    notes = Notes(noise)
    with any_promotion():
        _look(notes, noise, problem, net, params, draws, key)
    return notes.close(raise_on_error)


def _model(problem: Problem, net: Net | None, params: PyTree, key: int) -> tuple[Net, PyTree]:
    if (net is None) != (params is None):
        raise ValueError("net and params must be given together, got one without the other")
    if net is None:
        net = Deep([problem.d, problem.k])
        rng = generator(key, "check_noise params")
        return net, {"W1": rng.standard_normal((problem.d, problem.k)) / np.sqrt(problem.d)}
    refuse_class("net", net, Net)
    if isinstance(problem, Population) and not isinstance(net, LinearNet):
        raise ValueError(f"net must be linear on Population, got {type(net).__name__}")
    return net, jax.tree.map(lambda leaf: checks.array("params", leaf), params)


def _look(
    notes: Notes, noise: Noise, problem: Problem, net: Net, params: PyTree, count: int, key: int
) -> None:
    notes.begin("fields")
    check_fields(notes, noise)
    try:
        noise.check(problem, count)
    except Exception as error:  # its own refusal, or a mistake in it
        notes.find(f"it does not take this problem: {said(error)}")
        return
    notes.begin("shapes")
    if not fits_problem(notes, noise, problem, params):
        return
    labels = False
    if isinstance(noise, DataNoise) and isinstance(problem, FiniteData):
        moments = claimed_moments(notes, noise, problem.n)
        if moments is None:
            return
        labels = bool(np.any(moments[1]))
        if _rows_only(noise, problem):
            notes.begin("draws")
            _rows(notes, noise, problem, moments, count, key)
            _same_draw(notes, noise, problem, key)
    if not (labels and isinstance(problem, Samples)):  # no covariance is known there
        notes.begin("gradients")
        _gradients(notes, noise, problem, net, params, count, key)
    closed = isinstance(net, ChainNet) and isinstance(problem, QuadraticProblem)
    if closed and isinstance(noise, DataNoise) and not notes.findings:
        notes.begin("closure")
        check_closure(notes, noise, problem, net, params, key)


def _rows_only(noise: DataNoise, problem: Problem) -> bool:
    """Does a step see rows of the data, and not something else?"""
    batch = jax.eval_shape(lambda: noise.batch(problem, seed(0), np.asarray(0, np.int64)))
    return batch is None or batch.x is None


def _rows(
    notes: Notes,
    noise: DataNoise,
    problem: FiniteData,
    moments: tuple[np.ndarray, np.ndarray],
    count: int,
    key: int,
) -> None:
    n = problem.n
    k = problem.k
    covariance, variance = moments
    samples = directions(n, "sample", key)
    labels = directions(n * k, "label", key)
    sees = RowEffects(samples.matrix, labels.matrix)
    draws = drawn(noise, problem, sees, key, count)
    moves = bool(np.any(covariance) or np.any(variance))
    if _stands_still(notes, noise, problem, sees, draws, key, moves):
        return
    m = len(samples.names)
    w = draws[:, :m]
    u = draws[:, m:]
    squares = np.repeat((1 + np.diagonal(covariance)) * variance, k)
    for claim in (
        ClaimedMoments("weights", w, _along(samples, covariance), samples.names, 1.0),
        ClaimedMoments("noises of labels", u, _along(labels, np.diag(squares)), labels.names, 0.0),
    ):
        for sentence in against_moments(claim):
            notes.find(sentence)
    across = between(w, u)
    if across > LARGEST:
        notes.find(
            "the noise on labels must have mean zero whatever the weights, but is correlated with "
            f"them, {far(across)}"
        )


def _along(directions: Directions, covariance: np.ndarray) -> np.ndarray:
    return directions.matrix @ covariance @ directions.matrix.T


def _stands_still(
    notes: Notes,
    noise: Noise,
    problem: Problem,
    sees: RowEffects | Gradients,
    draws: np.ndarray,
    key: int,
    moves: bool,
) -> bool:
    """Steps and runs must draw anew; a finding if they do not."""
    if not moves:
        return False
    if len(draws) > 1 and np.all(draws == draws[0]):
        notes.find("every step draws the same: what draw returns must depend on its key")
        return True
    other = drawn(noise, problem, sees, key + 1, len(draws))
    if np.array_equal(draws, other):
        notes.find("every run draws the same: batch must depend on the key of the run")
        return True
    for what, first, second in (
        ("a step and the next", draws[:-1], draws[1:]),
        ("a step and the next but one", draws[:-2], draws[2:]),
        ("runs with different keys", draws, other),
    ):
        z = between(first - first.mean(axis=0), second - second.mean(axis=0))
        if z > LARGEST:
            notes.find(f"draws of {what} are correlated, {far(z)}")
    return False


def _same_draw(notes: Notes, noise: DataNoise, problem: FiniteData, key: int) -> None:
    """What runs use, `batch`, is what `draw` says."""
    n = problem.n
    k = problem.k
    for step in range(3):
        here = stream(seed(key), np.asarray(step, np.int64), type(noise).__name__)
        weights, labels = noise.draw(here, n, k)
        drawn_effect = effect(Batch(weights=weights, label_noise=labels), n, k)
        used = effect(noise.batch(problem, seed(key), np.asarray(step, np.int64)), n, k)
        for what, a, b in zip(("weights", "noise on labels"), drawn_effect, used, strict=True):
            if relative(a, b) > SAME:
                notes.find(f"batch and draw give other {what} at the same key")
                return


def _gradients(
    notes: Notes, noise: Noise, problem: Problem, net: Net, params: PyTree, count: int, key: int
) -> None:
    entries = len(ravel_pytree(params)[0])
    along = directions(entries, "parameter", key)
    sees = Gradients(net, params, along.matrix)
    try:
        root = np.asarray(claimed_root(noise, problem, sees))
        draws = drawn(noise, problem, sees, key, count)
    except Exception as error:  # whatever the user's code raises is a finding
        notes.find(f"the noise of a gradient fails: {said(error)}")
        return
    covariance = root @ root.T
    size = float(np.abs(ravel_pytree(gradient(problem, net, params))[0]).max())
    rows = isinstance(noise, DataNoise) and isinstance(problem, FiniteData)
    moves = bool(np.diagonal(covariance).max() > (1e-12 * size) ** 2)
    if not rows and _stands_still(notes, noise, problem, sees, draws, key, moves):
        return
    claim = ClaimedMoments("gradients", draws, covariance, along.names, size)
    for sentence in against_moments(claim):
        notes.find(sentence)
    if entries > DENSE:
        return
    sigma = np.asarray(noise.factor(problem, net, params))
    dense = np.asarray(noise.covariance(problem, net, params))
    for what, matrix in (("factor", sigma @ sigma.T), ("covariance", dense)):
        apart = relative(_along(along, matrix), covariance)
        if apart > 1e-8:
            notes.find(f"{what} and kick do not have the same covariance: {apart:.2g} apart")
