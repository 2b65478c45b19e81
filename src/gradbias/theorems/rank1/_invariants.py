"""What never changes on the way: the unseen part of the first layer, charges, sparsity patterns."""

from collections.abc import Mapping

import numpy as np

from ... import init
from ...dynamics import Adam, Descent, Flow
from ...nets import ChainNet, Deep, Rank1, TwoLayer
from ...numerics.host_rng import generator
from ...theory import deep_from_rank1, rank1_from_deep
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
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
from ._facts import QUIET, depth_of, outside
from ._paper import FLOW_AND_STEPS, OF_PATHS, PAPER, RANK1_STEPS

SHORT = Until(steps=1000)
SAVES = np.unique(np.round(np.geomspace(1, 1001, 30))).astype(int) - 1


def factors(setup: Setup, params: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The matrices of the net with these parameters."""
    assert isinstance(setup.net, ChainNet)
    return [np.asarray(factor) for factor in setup.net.factors(params)]


def product_of(matrices: list[np.ndarray]) -> np.ndarray:
    """The product of all factors but the first."""
    product = np.eye(matrices[-1].shape[1])
    for factor in matrices[:0:-1]:  # from the outputs: no matrix of the hidden width
        product = factor @ product
    return product


def predict_unseen(setup: Setup) -> Claims:
    """The unseen part of the first layer stays; that of the predictor is its product."""
    problem = common.regression(setup)
    start = factors(setup, setup.params)[0]
    kept = outside(problem, start)
    # Layers that start small grow with the predictor, and rounding with them.
    size = float(np.linalg.norm(start))
    grown = float(np.linalg.norm(problem.min_norm))
    return {
        "layer": equals(kept, scale=max(size, grown**0.5) or 1.0),
        "predictor": equals(np.zeros(kept.shape[0]), scale=max(size, grown) or 1.0),
    }


def measure_unseen(run: Run) -> Measurements:
    """The same at the end of the run; the predictor's by difference."""
    setup = setup_of(run)
    problem = common.regression(setup)
    final = factors(setup, run.final)
    kept = outside(problem, factors(setup, setup.params)[0])
    assert run.theta is not None
    theta = outside(problem, np.asarray(problem.as_predictor(run.theta)))
    gap = np.linalg.norm(theta - kept @ product_of(final), axis=1)
    return {"layer": outside(problem, final[0]), "predictor": gap}


def noisy(key: int, decay: float = 0.0) -> Setup:
    """SGD on a rank-1 net out of balance."""
    dynamics = cases.sgd(key, decay)
    return cases.unbalanced(key, dynamics, until=SHORT, save_at=SAVES)


def by_coordinates(key: int) -> Setup:
    """Adam: a step of the size of the learning rate for every input, seen or not."""
    setup = noisy(key)
    noise = getattr(setup.dynamics, "noise", None)
    return setup.replace(dynamics=Adam(1e-3, noise=noise))


ROWSPACE = Theorem(
    "rank1.rowspace",
    r"From any start, with or without minibatches, label noise or momentum, the first layer moves "
    r"in the row space of the data only: $P_NW_1(t) = P_NW_1(0)$, hence "
    r"$P_N\theta(t) = P_NW_1(0)\,W_2(t)\cdots$ at every step.",
    hypotheses=[common.no_decay(), kind("steps see the data only", common.sees_data_only)],
    predict=predict_unseen,
    measure=measure_unseen,
    tolerance=1e-10,
    instances=noisy,
    controls=[
        Control("there is no weight decay", lambda key: noisy(key, decay=0.01)),
        Control("steps see the data only", by_coordinates),
    ],
    nets=(Rank1, Deep, TwoLayer),
    paper=PAPER,
    title="the first layer keeps what data do not see",
)


def charges(params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """‖u‖² − ‖v1‖², ‖v‖² − ‖v1‖² and uuᵀ − vvᵀ."""
    v1 = params["v1"]
    u = params["u"]
    v = params["v"]
    size = float(v1 @ v1)
    norms = np.stack([np.sum(u * u, axis=1) - size, np.sum(v * v, axis=1) - size])
    pairs = u[:, :, None] * u[:, None, :] - v[:, :, None] * v[:, None, :]
    return {"norms": norms, "pairs": pairs}


def predict_conserved(setup: Setup) -> Claims:
    """The charges of the start."""
    size = sum(float(np.sum(np.square(x))) for x in setup.params.values())
    return {name: equals(value, scale=size) for name, value in charges(setup.params).items()}


def measure_conserved(run: Run) -> Measurements:
    """The same at the end of the run."""
    return charges(run.final)


def moved_charges(setup: Setup) -> float:
    """A step moves a charge by lr²gᵀAg: at most lr times the loss that is lost, relative."""
    if not common.is_descent(setup):
        return 0.0
    problem = common.regression(setup)
    size = sum(float(np.sum(np.square(x))) for x in setup.params.values())
    lost = float(problem.loss(common.start(setup))) - problem.min_loss
    # Twice: the sum over steps is above the integral by a part that the step's stability bounds.
    # A start at zero stays there.
    return 2 * common.learning_rate(setup) * lost / size if size else 0.0


LEMMA1 = Theorem(
    "rank1.lemma1",
    r"Gradient flow of a rank-1 net keeps $\|u_k\|^2 - \|v_1\|^2$, $\|v_{k+1}\|^2 - \|v_1\|^2$ and "
    r"the matrices $u_ku_k^\top - v_{k+1}v_{k+1}^\top$, from any start.",
    hypotheses=[
        *common.plain(),
        QUIET,
        Hypothesis("the step is small", moved_charges, 0.5, graded=True, order="O(lr)"),
    ],
    predict=predict_conserved,
    measure=measure_conserved,
    tolerance=1e-10,
    instances=cases.unbalanced,
    controls=[
        Control(
            "there is no weight decay",
            lambda key: cases.unbalanced(key, Flow(1e-12, 1e-14, weight_decay=0.02)),
        )
    ],
    nets=(Rank1,),
    paper=FLOW_AND_STEPS,
    title="charges of a rank-1 net",
    narrow=True,
)


def equal_norms(key: int) -> Setup:
    """All vectors of one length, pairs not parallel; three pairs."""
    problem = cases.data(key)
    net = Rank1(problem.d, depth=4, width=cases.WIDTH)
    rng = generator(key, "rank1 equal norms")
    draws = {"v1": (problem.d,), "u": (3, cases.WIDTH), "v": (3, cases.WIDTH)}
    params = {name: rng.standard_normal(shape) for name, shape in draws.items()}
    params["v"] = np.sign(np.sum(params["u"] * params["v"], axis=1))[:, None] * params["v"]
    # Not all pairs nearly orthogonal, or nothing moves.
    params["v"] = params["v"] / np.linalg.norm(params["v"], axis=1)[:, None] + 0.5 * params["u"]
    unit = {n: x / np.linalg.norm(x, axis=-1, keepdims=True) for n, x in params.items()}
    return cases.setup(net, unit, key, problem=problem)


def decaying_lengths(key: int) -> Setup:
    """The same with weight decay."""
    return equal_norms(key).replace(dynamics=Flow(1e-12, 1e-14, weight_decay=0.02))


def unequal(setup: Setup) -> float:
    """How far the lengths of u and v are from each other, of the largest square."""
    squares = np.concatenate([np.sum(setup.params[n] ** 2, axis=1) for n in ("u", "v")])
    return float(np.ptp(squares) / squares.max()) if squares.any() else 0.0


def overlaps(params: Mapping[str, np.ndarray]) -> np.ndarray:
    """ω_k² − ω_1² for k > 1."""
    omega = np.sum(params["u"] * params["v"], axis=1)
    return omega[1:] ** 2 - omega[0] ** 2


def predict_overlaps(setup: Setup) -> Claims:
    """As at the start."""
    size = float(np.max(np.sum(np.square(setup.params["u"]), axis=1))) ** 2
    return {"overlaps": equals(overlaps(setup.params), scale=size)}


EQ18 = Theorem(
    "rank1.lemma1.18",
    r"Where all vectors $u_k$ and $v_{k+1}$ start with one length, gradient flow of a rank-1 net "
    r"keeps $\omega_k^2 - \omega_j^2$, $\omega_k = \langle v_{k+1}, u_k\rangle$, pairs parallel "
    r"or not.",
    hypotheses=[
        *common.plain(),
        QUIET,
        kind("there are several pairs", lambda s: len(s.params["u"]) > 1),
        Hypothesis("all vectors have one length", unequal, 1e-10),
    ],
    predict=predict_overlaps,
    measure=lambda run: {"overlaps": overlaps(run.final)},
    tolerance=1e-10,
    instances=equal_norms,
    controls=[
        Control("all vectors have one length", cases.unbalanced),
        Control("there is no weight decay", decaying_lengths),
    ],
    nets=(Rank1,),
    dynamics=(Flow,),
    paper=PAPER,
    title="differences of squared overlaps",
)


def measure_aligned(run: Run) -> Measurements:
    """Cosines of the pairs, and all norms over that of v1, along the path."""
    cosines = []
    norms = []
    for params in cases.path(run):
        u = np.linalg.norm(params["u"], axis=1)
        v = np.linalg.norm(params["v"], axis=1)
        cosines.append(np.abs(np.sum(params["u"] * params["v"], axis=1)) / (u * v))
        norms.append(np.concatenate([u, v]) / np.linalg.norm(params["v1"]))
    return {"cosine": np.asarray(cosines), "norms": np.asarray(norms)}


def predict_aligned(setup: Setup, run: Run) -> Claims:
    """All of them are 1 for ever."""
    return {name: equals(np.ones_like(x), 1.0) for name, x in measure_aligned(run).items()}


C1 = Theorem(
    "rank1.c1",
    r"A balanced rank-1 net stays balanced under gradient flow: pairs stay parallel and all norms "
    r"equal, $\|u_k\| = \|v_{k+1}\| = \|v_1\| = \|\theta\|^{1/(2L-1)}$.",
    hypotheses=[*common.plain(), common.balanced()],
    predict=predict_aligned,
    measure=measure_aligned,
    tolerance=1e-10,
    instances=cases.rank1,
    controls=[
        Control("the path is gradient flow's", lambda key: cases.rank1(key, dynamics=Descent(0.02)))
    ],
    given=("number of saves",),
    dynamics=(Flow,),
    paper=OF_PATHS,
    title="balance is kept by gradient flow",
)


def both_nets(setup: Setup) -> dict[str, Setup]:
    """The rank-1 net and a balanced net of 2L − 1 full layers with the same predictor."""
    N = depth_of(setup)
    net = Deep(dims=(setup.problem.d, *([3] * (N - 1)), 1))
    params = init.balanced(net, common.start(setup), key=setup.key)
    return {"rank1": setup, "deep": setup.replace(net=net, params=params)}


def predict_one_path(setup: Setup) -> Claims:
    """The difference of the two paths, in units of the start's size."""
    size = max(
        float(np.linalg.norm(common.start(setup))),
        float(np.linalg.norm(common.regression(setup).min_norm)),
    )
    return {"path": equals(np.zeros((len(setup.save_at), setup.problem.d)), scale=size)}


def measure_one_path(runs: Mapping[str, Run]) -> Measurements:
    """The difference of the two."""
    rank1, deep = (runs[name].data["theta"].values for name in ("rank1", "deep"))
    return {"path": rank1 - deep}


def short_rank1(key: int) -> Setup:
    """SGD on a balanced rank-1 net."""
    return cases.rank1(key, dynamics=cases.sgd(key), until=SHORT, save_at=SAVES, record=cases.PATH)


def short_unbalanced(key: int) -> Setup:
    """SGD on one out of balance."""
    return cases.unbalanced(key, cases.sgd(key), until=SHORT, save_at=SAVES, record=cases.PATH)


EQUIVALENCE = Theorem(
    "rank1.equivalence",
    r"A balanced rank-1 net of depth $L$ and a balanced net of $2L-1$ full layers with the same "
    r"predictor take the same path, step by step, under GD and SGD too.",
    hypotheses=[common.one_output(), *common.plain(), common.balanced()],
    predict=predict_one_path,
    measure=measure_one_path,
    tolerance=1e-10,
    instances=short_rank1,
    controls=[Control("init is balanced", short_unbalanced)],
    runs=both_nets,
    paper=RANK1_STEPS,
    title="rank-1 nets are deep nets of depth 2L−1",
)


def of_pattern(key: int, params: Mapping[str, np.ndarray]) -> Setup:
    """SGD on three full layers."""
    net = Deep(dims=(cases.sizes(key).d, cases.WIDTH, cases.WIDTH, 1))
    return cases.setup(
        net, params, key, cases.sgd(key), until=SHORT, save_at=SAVES, record=cases.PATH
    )


def sparse(key: int, shift: int = 0) -> Setup:
    """Three full layers with the pattern of a rank-1 net; `shift` moves the row to another unit."""
    rng = generator(key, "rank1 sparse")
    small = {
        "v1": 0.5 * rng.standard_normal(cases.sizes(key).d),
        "u": rng.standard_normal((1, cases.WIDTH)),
        "v": 0.5 * rng.standard_normal((1, cases.WIDTH)),
    }
    params = deep_from_rank1(small, hidden=cases.WIDTH, units=[1])
    params["W2"] = np.roll(params["W2"], shift, axis=0)
    return of_pattern(key, params)


def diagonal_start(key: int) -> Setup:
    """Diagonal layers, which are sparse too."""
    rng = generator(key, "rank1 diagonal layers")
    width = cases.WIDTH
    shapes = {"W1": (cases.sizes(key).d, width), "W2": (width, width), "W3": (width, 1)}
    params = {
        name: np.eye(shape[0], shape[1]) * rng.uniform(0.5, 1, size=shape)
        for name, shape in shapes.items()
    }
    return of_pattern(key, params)


def as_rank1(setup: Setup) -> dict[str, Setup]:
    """The net, and the rank-1 net that its pattern is."""
    try:
        small = rank1_from_deep(setup.params)
    except ValueError:  # a control: compare it with itself, the pattern decides
        return {"deep": setup, "rank1": setup}
    pairs, width = small["u"].shape
    net = Rank1(setup.problem.d, depth=pairs + 1, width=width)
    return {"deep": setup, "rank1": setup.replace(net=net, params=small)}


def predict_no_growth(setup: Setup) -> Claims:
    """Nothing grows off the pattern, and the two paths are one."""
    size = max(float(np.linalg.norm(w)) for w in setup.params.values())
    return {**predict_one_path(setup), "off": equals(np.zeros(len(setup.params)), scale=size)}


def measure_no_growth(runs: Mapping[str, Run]) -> Measurements:
    """The difference of the paths, and what has grown where there was nothing."""
    deep = runs["deep"]
    start = setup_of(deep).params
    grown = [np.where(w == 0, deep.final[name], 0.0) for name, w in start.items()]
    return {**measure_one_path(runs), "off": np.asarray([float(np.linalg.norm(x)) for x in grown])}


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
    hypotheses=[
        common.one_output(),
        common.no_decay(),
        kind("layers have a rank-1 net's pattern", one_pattern),
    ],
    predict=predict_no_growth,
    measure=measure_no_growth,
    tolerance=1e-10,
    instances=sparse,
    controls=[
        Control("row and column at the same unit", lambda key: sparse(key, shift=1)),
        Control("one row and column, not a diagonal", diagonal_start),
    ],
    runs=as_rank1,
    nets=(Deep,),
    dynamics=(Descent,),
    paper=PAPER,
    title="sparse deep nets that are rank-1 nets",
)

THEOREMS = (ROWSPACE, EQUIVALENCE, LEMMA1, EQ18, C1, PROP1)
