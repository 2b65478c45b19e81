"""Instances of rank-1, deep and diagonal nets: few shapes and one record for all of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ... import init, observe, problems
from ...dynamics import Descent, Dynamics, Flow
from ...nets import Deep, Diagonal, Net, Rank1
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...problems import Regression
from ..prelude import Run, Setup, Until


class Sizes(NamedTuple):
    """Of an instance.

    Attributes:
        d: inputs.
        n: samples, fewer.
        layers: L of a rank-1 net.
        full: layers of a deep net.
    """

    d: int
    n: int
    layers: int
    full: int


# Few shapes, for each compiles anew.
SIZES = (Sizes(8, 4, 3, 3), Sizes(10, 6, 2, 4), Sizes(9, 5, 4, 2), Sizes(12, 4, 5, 3))
WIDTH = 5
TIMES = np.concatenate([[0.0], np.geomspace(1e-2, 1e4, 31)])
STEPS = np.unique(np.round(np.geomspace(1, 3001, 32))).astype(int) - 1
TIGHT = Flow(rtol=1e-12, atol=1e-14)


def velocity(problem, net, params):
    """dθ/dt of gradient flow at these parameters, by the chain rule."""
    pull = jax.grad(lambda p: problem.net_loss(net, p))(params)
    _, moved = jax.jvp(net.predictor, (params,), (jax.tree.map(jnp.negative, pull),))
    return jnp.ravel(moved)


def slope(problem, net, params):
    """dL/dt of gradient flow: −‖∇L‖²."""
    pull = jax.grad(lambda p: problem.net_loss(net, p))(params)
    return -sum(jnp.sum(g * g) for g in jax.tree.leaves(pull))


# One record for all theorems of the paper, so that their runs share their programs.
RECORD = {
    "theta": observe.theta,
    "params": observe.params,
    "velocity": velocity,
    "slope": slope,
}
# What theorems that compare two nets can record of both.
PATH = {"theta": observe.theta}


def sizes(key: int) -> Sizes:
    """The sizes of this instance."""
    return SIZES[key % len(SIZES)]


def rank1_net(key: int) -> Rank1:
    """A rank-1 net of its sizes."""
    return Rank1(sizes(key).d, sizes(key).layers, WIDTH)


def deep_net(key: int) -> Deep:
    """A net of full layers of its sizes."""
    return Deep(dims=(sizes(key).d, *[WIDTH] * (sizes(key).full - 1), 1))


def slower(key: int) -> float:
    """How much smaller steps must be where depth makes the sharpness larger."""
    return min(1.0, (5 / (2 * sizes(key).layers - 1)) ** 2)


def sgd(key: int, decay: float = 0.0) -> Descent:
    """SGD with two rows in a step."""
    return Descent(0.01 * slower(key), Minibatch(2), weight_decay=decay)


def direction(key: int) -> np.ndarray:
    """A random unit vector."""
    vector = generator(key, "rank1 direction").standard_normal(sizes(key).d)
    return vector / np.linalg.norm(vector)


class Changes(TypedDict, total=False):
    """What an instance may have of its own."""

    problem: Regression
    until: Until
    save_at: ArrayLike
    record: Mapping[str, Any]


def data(key: int) -> Regression:
    """Fewer samples than dimensions: some of the predictor is free."""
    return problems.gaussian(n=sizes(key).n, d=sizes(key).d, key=key)


def setup(
    net: Net,
    params: Mapping[str, np.ndarray],
    key: int,
    dynamics: Dynamics | None = None,
    **changes: Unpack[Changes],
) -> Setup:
    """A run of one of the nets; gradient flow to the end unless told otherwise."""
    dynamics = TIGHT if dynamics is None else dynamics
    steps = isinstance(dynamics, Descent)
    until = Until(steps=int(STEPS[-1])) if steps else Until(gap=1e-26, time=float(TIMES[-1]))
    return Setup(
        changes["problem"] if "problem" in changes else data(key),
        net,
        params,
        dynamics,
        until=changes.get("until", until),
        record=changes.get("record", RECORD),
        save_at=changes.get("save_at", STEPS if steps else TIMES),
        key=key,
    )


def rank1(
    key: int, scale: float = 0.7, dynamics: Dynamics | None = None, **changes: Unpack[Changes]
) -> Setup:
    """A balanced rank-1 net."""
    params = init.balanced(rank1_net(key), scale * direction(key), key=key)
    return setup(rank1_net(key), params, key, dynamics, **changes)


def deep(
    key: int, scale: float = 0.7, dynamics: Dynamics | None = None, **changes: Unpack[Changes]
) -> Setup:
    """A balanced net of full layers."""
    params = init.balanced(deep_net(key), scale * direction(key), key=key)
    return setup(deep_net(key), params, key, dynamics, **changes)


def unbalanced(key: int, dynamics: Dynamics | None = None, **changes: Unpack[Changes]) -> Setup:
    """A rank-1 net out of balance: pairs of other lengths, and not quite parallel."""
    params = init.balanced(rank1_net(key), 0.7 * direction(key), key=key)
    rng = generator(key, "rank1 unbalanced")
    tilt = 0.2 * rng.standard_normal(params["u"].shape)
    params = {**params, "u": 1.3 * params["u"] + tilt, "v": 0.8 * params["v"] - tilt}
    return setup(rank1_net(key), params, key, dynamics, **changes)


def unbalanced_deep(
    key: int, dynamics: Dynamics | None = None, **changes: Unpack[Changes]
) -> Setup:
    """A net of full layers out of balance."""
    params = init.balanced(deep_net(key), 0.7 * direction(key), key=key)
    rng = generator(key, "deep unbalanced")
    noisy = {n: w + 0.1 * rng.standard_normal(w.shape) for n, w in params.items()}
    return setup(deep_net(key), noisy, key, dynamics, **changes)


def diagonal(key: int, dynamics: Dynamics | None = None, **changes: Unpack[Changes]) -> Setup:
    """A diagonal net with halves of different sizes."""
    rng = generator(key, "rank1 diagonal")
    params = {name: rng.uniform(0.3, 1.0, size=sizes(key).d) for name in ("u", "v")}
    return setup(Diagonal(d=sizes(key).d), params, key, dynamics, **changes)


# Of the paper's experiments.
PAPER_D = 100
PAPER_N = 40


def paper_rank1(key: int) -> Setup:
    """A balanced rank-1 net of three layers at the paper's size."""
    return _at_paper_size(Rank1(PAPER_D, 3, PAPER_D), key)


def paper_deep(key: int) -> Setup:
    """A balanced net of four full layers at the paper's size."""
    return _at_paper_size(Deep(dims=(PAPER_D, PAPER_D, PAPER_D, PAPER_D, 1)), key)


def _at_paper_size(net: Rank1 | Deep, key: int) -> Setup:
    theta0 = generator(key, "rank1 paper size").standard_normal(PAPER_D)
    params = init.balanced(net, theta0 / np.linalg.norm(theta0), key=key)
    problem = problems.gaussian(n=PAPER_N, d=PAPER_D, key=key)
    until = Until(gap=1e-24, time=float(TIMES[-1]))
    record = {"theta": observe.theta}
    return setup(net, params, key, problem=problem, until=until, record=record, save_at=[0.0])


def path(run: Run) -> list[dict[str, np.ndarray]]:
    """The parameters at every save."""
    names = [str(n) for n in run.data if str(n).startswith("params_")]
    values = [run.data[n].values for n in names]
    saves = [
        dict(zip((n.removeprefix("params_") for n in names), row, strict=True))
        for row in zip(*values, strict=True)
    ]
    return [save for save in saves if all(np.isfinite(x).all() for x in save.values())]


def recorded(run: Run, name: str) -> np.ndarray:
    """A recorded variable at the saves that were reached."""
    count = len(path(run))
    values = np.asarray(run.data[name].values[:count])
    # Labels of shape (n, 1) make predictors of shape (d, 1); all theorems here have one output.
    return values[..., 0] if name == "theta" and values.ndim == 3 else values
