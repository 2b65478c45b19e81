"""Instances of rank-1, deep and diagonal nets: one small shape and one record for all of them."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import init, observe, problems
from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Flow
from ...nets import Deep, Diagonal, Net, Rank1
from ...numerics.host_rng import generator

D, N, L, WIDTH = 8, 4, 3, 5
RANK1 = Rank1(d=D, depth=L, width=WIDTH)
DEEP = Deep(dims=(D, WIDTH, WIDTH, 1))
DIAGONAL = Diagonal(d=D)
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


def direction(key: int) -> np.ndarray:
    """A random unit vector."""
    vector = generator(key, "rank1 direction").standard_normal(D)
    return vector / np.linalg.norm(vector)


def data(key: int) -> Any:
    """Four samples in eight dimensions: half of the predictor is free."""
    return problems.gaussian(n=N, d=D, key=key)


def setup(
    net: Net, params: Mapping[str, Any], key: int, dynamics: Any = None, **more: Any
) -> Setup:
    """A run of one of the nets; gradient flow to the end unless told otherwise."""
    moves = TIGHT if dynamics is None else dynamics
    steps = isinstance(moves, Descent)
    until = Until(steps=int(STEPS[-1])) if steps else Until(gap=1e-26, time=float(TIMES[-1]))
    arguments = {"until": until, "save_at": STEPS if steps else TIMES, "record": RECORD, **more}
    problem = arguments.pop("problem", None) or data(key)
    return Setup(problem, net, params, moves, key=key, **arguments)


def rank1(key: int, scale: float = 0.7, dynamics: Any = None, **more: Any) -> Setup:
    """A balanced rank-1 net."""
    params = init.balanced(RANK1, scale * direction(key), key=key)
    return setup(RANK1, params, key, dynamics, **more)


def deep(key: int, scale: float = 0.7, dynamics: Any = None, **more: Any) -> Setup:
    """A balanced net of three full layers."""
    params = init.balanced(DEEP, scale * direction(key), key=key)
    return setup(DEEP, params, key, dynamics, **more)


def unbalanced(key: int, dynamics: Any = None, **more: Any) -> Setup:
    """A rank-1 net out of balance: pairs of other lengths, and not quite parallel."""
    params = init.balanced(RANK1, 0.7 * direction(key), key=key)
    rng = generator(key, "rank1 unbalanced")
    tilt = 0.2 * rng.standard_normal(params["u"].shape)
    params = {**params, "u": 1.3 * params["u"] + tilt, "v": 0.8 * params["v"] - tilt}
    return setup(RANK1, params, key, dynamics, **more)


def unbalanced_deep(key: int, dynamics: Any = None, **more: Any) -> Setup:
    """A net of three full layers out of balance."""
    params = init.balanced(DEEP, 0.7 * direction(key), key=key)
    rng = generator(key, "deep unbalanced")
    noisy = {n: w + 0.1 * rng.standard_normal(w.shape) for n, w in params.items()}
    return setup(DEEP, noisy, key, dynamics, **more)


def diagonal(key: int, dynamics: Any = None, **more: Any) -> Setup:
    """A diagonal net with halves of different sizes."""
    rng = generator(key, "rank1 diagonal")
    params = {name: rng.uniform(0.3, 1.0, size=D) for name in ("u", "v")}
    return setup(DIAGONAL, params, key, dynamics, **more)


def path(run: Any) -> list[dict[str, np.ndarray]]:
    """The parameters at every save."""
    names = [str(n) for n in run.data if str(n).startswith("params_")]
    values = {n.removeprefix("params_"): run.data[n].values for n in names}
    return [
        {n: v[i] for n, v in values.items()}
        for i in range(len(run.data["theta"]))
        if all(np.isfinite(v[i]).all() for v in values.values())
    ]


def recorded(run: Any, name: str) -> np.ndarray:
    """A recorded variable at the saves that were reached."""
    count = len(path(run))
    found = np.asarray(run.data[name].values[:count])
    # Labels of shape (n, 1) make predictors of shape (d, 1); all theorems here have one output.
    return found[..., 0] if name == "theta" and found.ndim == 3 else found
