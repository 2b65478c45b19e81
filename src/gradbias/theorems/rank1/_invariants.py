"""What never changes on the way: the unseen part of the first layer, charges, sparsity patterns."""

from typing import Any

import numpy as np

from ... import init
from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Flow
from ...nets import ChainNet, Deep, Rank1, TwoLayer
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory import deep_from_rank1, rank1_from_deep
from .. import _shared_hypotheses as common
from .._claims import equals
from .._hypothesis import Hypothesis, kind
from .._source import RANK1 as SOURCE
from .._theorem import Control, Theorem
from . import _instances as cases
from ._limits import depth_of

SGD = Descent(0.01, Minibatch(2))
SHORT = Until(steps=1000)
SAVES = np.unique(np.round(np.geomspace(1, 1001, 30))).astype(int) - 1


def outside(problem: Any, layer: np.ndarray) -> np.ndarray:
    """The part of a first layer that the data do not see."""
    basis = problem.row_space
    return layer - basis @ (basis.T @ layer)


def first(net: Any, params: Any) -> np.ndarray:
    """The first factor."""
    assert isinstance(net, ChainNet)
    return np.asarray(net.factors(params)[0])


def rest(net: Any, params: Any) -> np.ndarray:
    """The product of the other factors."""
    factors = [np.asarray(f) for f in net.factors(params)]
    product = np.eye(factors[-1].shape[1])
    for factor in factors[:0:-1]:  # from the outputs: no matrix of the hidden width
        product = factor @ product
    return product


def unseen(setup: Setup) -> dict[str, Any]:
    """The unseen part of the first layer stays; that of the predictor is its product."""
    start = first(setup.net, setup.params)
    kept = outside(setup.problem, start)
    # Layers that start small grow with the predictor, and rounding with them.
    size, grown = (
        float(np.linalg.norm(start)),
        float(np.linalg.norm(common.problem(setup).min_norm)),
    )
    return {
        "layer": equals(kept, scale=max(size, grown**0.5) or 1.0),
        "predictor": equals(np.zeros(kept.shape[0]), scale=max(size, grown) or 1.0),
    }


def seen_unseen(runs: Any) -> dict[str, Any]:
    """The same at the end of the run; the predictor's by difference."""
    run = runs["run"]
    problem, net = run.setup.problem, run.setup.net
    layer = outside(problem, first(net, run.final))
    kept = outside(problem, first(net, run.setup.params))
    theta = outside(problem, problem.as_predictor(run.theta))
    gap = np.linalg.norm(theta - kept @ rest(net, run.final), axis=1)
    return {"layer": layer, "predictor": gap}


def noisy(key: int, decay: float = 0.0) -> Setup:
    """SGD on a rank-1 net out of balance."""
    moves = Descent(0.01, Minibatch(2), weight_decay=decay)
    return cases.unbalanced(key, moves, until=SHORT, save_at=SAVES)


ROWSPACE = Theorem(
    "rank1.rowspace",
    r"From any start, with or without minibatches, label noise or momentum, the first layer moves "
    r"in the row space of the data only: $P_NW_1(t) = P_NW_1(0)$, hence "
    r"$P_N\theta(t) = P_NW_1(0)\,W_2(t)\cdots$ at every step.",
    [common.no_decay(), kind("steps see the data only", common.sees_data_only)],
    unseen,
    seen_unseen,
    1e-10,
    noisy,
    [Control("there is no weight decay", lambda key: noisy(key, decay=0.01))],
    nets=(Rank1, Deep, TwoLayer),
    problems=(Regression,),
    source=SOURCE,
    title="the first layer keeps what data do not see",
)


def charges(params: Any) -> dict[str, np.ndarray]:
    """‖u‖² − ‖v1‖², ‖v‖² − ‖v1‖² and uuᵀ − vvᵀ."""
    v1, u, v = params["v1"], params["u"], params["v"]
    size = float(v1 @ v1)
    norms = np.stack([np.sum(u * u, axis=1) - size, np.sum(v * v, axis=1) - size])
    pairs = u[:, :, None] * u[:, None, :] - v[:, :, None] * v[:, None, :]
    return {"norms": norms, "pairs": pairs}


def conserved(setup: Setup) -> dict[str, Any]:
    """The charges of the start."""
    size = sum(float(np.sum(np.square(x))) for x in setup.params.values())
    return {name: equals(value, scale=size) for name, value in charges(setup.params).items()}


def moved_charges(setup: Setup) -> float:
    """A step moves a charge by lr²gᵀAg: at most lr times the loss that is lost, relative."""
    if not common.is_descent(setup):
        return 0.0
    problem: Any = setup.problem
    size = sum(float(np.sum(np.square(x))) for x in setup.params.values())
    lost = float(problem.loss(common.start(setup))) - problem.min_loss
    # Twice: the sum over steps is above the integral by a part that the step's stability bounds.
    # A start at zero stays there.
    return 2 * common.learning_rate(setup) * lost / size if size else 0.0


LEMMA1 = Theorem(
    "rank1.lemma1",
    r"Gradient flow of a rank-1 net keeps $\|u_k\|^2 - \|v_1\|^2$, $\|v_{k+1}\|^2 - \|v_1\|^2$ and "
    r"the matrices $u_ku_k^\top - v_{k+1}v_{k+1}^\top$, from any start.",
    [
        *common.plain(),
        kind("there is no noise", lambda s: getattr(s.dynamics, "noise", None) is None),
        Hypothesis("the step is small", moved_charges, 0.5, graded=True, order="O(lr)"),
    ],
    conserved,
    lambda runs: charges(runs["run"].final),
    1e-10,
    cases.unbalanced,
    [
        Control(
            "the step is small",
            lambda key: cases.unbalanced(key, Descent(0.02)),
        )
    ],
    nets=(Rank1,),
    problems=(Regression,),
    dynamics=(Flow, Descent),
    source=SOURCE,
    title="charges of a rank-1 net",
    narrow=True,
)


def alignment(run: Any) -> dict[str, Any]:
    """Cosines of the pairs, and all norms over that of v1, along the path."""
    cosines, norms = [], []
    for params in cases.path(run):
        u, v = np.linalg.norm(params["u"], axis=1), np.linalg.norm(params["v"], axis=1)
        cosines.append(np.abs(np.sum(params["u"] * params["v"], axis=1)) / (u * v))
        norms.append(np.concatenate([u, v]) / np.linalg.norm(params["v1"]))
    return {"cosine": np.asarray(cosines), "norms": np.asarray(norms)}


def aligned(setup: Setup, runs: Any) -> dict[str, Any]:
    """All of them are 1 for ever."""
    return {name: equals(np.ones_like(x), 1.0) for name, x in alignment(runs["run"]).items()}


C1 = Theorem(
    "rank1.c1",
    r"A balanced rank-1 net stays balanced under gradient flow: pairs stay parallel and all norms "
    r"equal, $\|u_k\| = \|v_{k+1}\| = \|v_1\| = \|\theta\|^{1/(2L-1)}$.",
    [*common.plain(), common.balanced()],
    aligned,
    lambda runs: alignment(runs["run"]),
    1e-10,
    cases.rank1,
    [Control("the path is gradient flow's", lambda key: cases.rank1(key, dynamics=Descent(0.02)))],
    nets=(Rank1,),
    needs=cases.RECORD,
    given=("number of saves",),
    problems=(Regression,),
    dynamics=(Flow,),
    source=SOURCE,
    title="balance is kept by gradient flow",
)


def both_nets(setup: Setup) -> dict[str, Setup]:
    """The rank-1 net and a balanced net of 2L − 1 full layers with the same predictor."""
    N = depth_of(setup)
    net = Deep(dims=(setup.problem.d, *([3] * (N - 1)), 1))
    params = init.balanced(net, common.start(setup), key=setup.key)
    return {"rank1": setup, "deep": setup.replace(net=net, params=params)}


def same(setup: Setup, runs: Any = None) -> dict[str, Any]:
    """The difference of the two paths, in units of the start's size."""
    size = max(
        float(np.linalg.norm(common.start(setup))),
        float(np.linalg.norm(common.problem(setup).min_norm)),
    )
    return {"path": equals(np.zeros((len(setup.save_at), setup.problem.d)), scale=size)}


def apart(left: str, right: str) -> Any:
    """The two paths, one minus the other."""

    def measure(runs: Any) -> dict[str, Any]:
        return {"path": runs[left].data["theta"].values - runs[right].data["theta"].values}

    return measure


def short_rank1(key: int) -> Setup:
    """SGD on a balanced rank-1 net."""
    return cases.rank1(key, dynamics=SGD, until=SHORT, save_at=SAVES, record=cases.PATH)


def short_unbalanced(key: int) -> Setup:
    """SGD on one out of balance."""
    return cases.unbalanced(key, SGD, until=SHORT, save_at=SAVES, record=cases.PATH)


EQUIVALENCE = Theorem(
    "rank1.equivalence",
    r"A balanced rank-1 net of depth $L$ and a balanced net of $2L-1$ full layers with the same "
    r"predictor take the same path, step by step, under GD and SGD too.",
    [common.one_output(), *common.plain(), common.balanced()],
    same,
    apart("rank1", "deep"),
    1e-10,
    short_rank1,
    [Control("init is balanced", short_unbalanced)],
    runs=both_nets,
    nets=(Rank1,),
    problems=(Regression,),
    dynamics=(Descent,),
    source=SOURCE,
    title="rank-1 nets are deep nets of depth 2L−1",
)

PATTERN = Deep(dims=(cases.D, cases.WIDTH, cases.WIDTH, 1))


def sparse(key: int, shift: int = 0) -> Setup:
    """Three full layers with the pattern of a rank-1 net; `shift` moves the row to another unit."""
    rng = generator(key, "rank1 sparse")
    small = {
        "v1": 0.5 * rng.standard_normal(cases.D),
        "u": rng.standard_normal((1, cases.WIDTH)),
        "v": 0.5 * rng.standard_normal((1, cases.WIDTH)),
    }
    params = deep_from_rank1(small, hidden=cases.WIDTH, units=[1])
    params["W2"] = np.roll(params["W2"], shift, axis=0)
    if shift:  # a path from input to output must be left, or nothing moves
        params["W2"] = params["W2"] + np.roll(params["W2"], -shift, axis=0)
    return cases.setup(PATTERN, params, key, SGD, until=SHORT, save_at=SAVES, record=cases.PATH)


def diagonal_start(key: int) -> Setup:
    """Diagonal layers, which are sparse too."""
    rng = generator(key, "rank1 diagonal layers")
    shapes = PATTERN.shapes()
    assert shapes is not None
    params = {
        name: np.eye(shape[0], shape[1]) * rng.uniform(0.5, 1, size=shape)
        for name, shape in shapes.items()
    }
    return cases.setup(PATTERN, params, key, SGD, until=SHORT, save_at=SAVES, record=cases.PATH)


def off_pattern(run: Any) -> np.ndarray:
    """What has grown where there was nothing."""
    grown = [np.where(w == 0, run.final[n], 0.0) for n, w in run.setup.params.items()]
    return np.asarray([float(np.linalg.norm(x)) for x in grown])


def as_rank1(setup: Setup) -> dict[str, Setup]:
    """The net, and the rank-1 net that its pattern is."""
    try:
        small = rank1_from_deep(setup.params)
    except ValueError:  # a control: compare it with itself, the pattern decides
        return {"deep": setup, "rank1": setup}
    net = Rank1(setup.problem.d, *_size(small))
    return {"deep": setup, "rank1": setup.replace(net=net, params=small)}


def _size(small: Any) -> tuple[int, int]:
    """Depth and width of a rank-1 net."""
    pairs, width = small["u"].shape
    return pairs + 1, width


def no_growth(setup: Setup) -> dict[str, Any]:
    """Nothing grows off the pattern, and the two paths are one."""
    size = max(float(np.linalg.norm(w)) for w in setup.params.values())
    return {**same(setup), "off": equals(np.zeros(len(setup.params)), scale=size)}


def one_pattern(setup: Setup) -> bool:
    """Has the net the sparsity of a rank-1 net?"""
    try:
        rank1_from_deep(setup.params)
    except ValueError:
        return False
    return True


PROP1 = Theorem(
    "rank1.prop1",
    r"A net of $2L-1$ full layers in which $W_{2p-1}$ has one non-zero row and $W_{2p}$ one "
    r"non-zero column, at the same unit, keeps that pattern under GD and SGD and moves as the "
    r"rank-1 net of depth $L$ does.",
    [
        common.one_output(),
        common.no_decay(),
        kind("layers have a rank-1 net's pattern", one_pattern),
    ],
    no_growth,
    lambda runs: {**apart("deep", "rank1")(runs), "off": off_pattern(runs["deep"])},
    1e-10,
    sparse,
    [
        Control("row and column at the same unit", lambda key: sparse(key, shift=1)),
        Control("one row and column, not a diagonal", diagonal_start),
    ],
    runs=as_rank1,
    nets=(Deep,),
    problems=(Regression,),
    dynamics=(Descent,),
    source=SOURCE,
    title="sparse deep nets that are rank-1 nets",
)

THEOREMS = (ROWSPACE, EQUIVALENCE, LEMMA1, C1, PROP1)
