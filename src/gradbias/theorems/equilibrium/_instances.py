"""Instances: a factorisation of noisy data and a normalised net; one short record each.

The engine's rows against the paper's columns: y = UWx with U = W2ᵀ and W = W1ᵀ.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from ... import observe
from ...dynamics import Descent
from ...nets import NormalisedA, TwoLayer
from ...noise import Minibatch, Noise
from ...numerics.host_rng import generator
from ...problems import Population, Regression
from ...symmetry import NoetherFlow, Symmetry, neurons, noether_flow
from ..prelude import Run, Setup, Until, setup_of

S = 2
LR = 0.02
DECAY = 0.05
UNITS = {"units": neurons({"W1": 1}, {"W2": 0})}
SAVES = np.arange(0, 41, 10)
FADED = 1e-8  # of the first loss: what is left of it has few digits
BATCHES = Minibatch(S, replace=True)
UNITS_AT_ONCE = 16  # whose Hessians are held
Params = Mapping[str, np.ndarray]  # the layers by name, in the engine's rows


class Shape(NamedTuple):
    """Inputs, outputs, hidden units and samples of an instance."""

    d: int
    k: int
    h: int
    n: int


# A key takes one of these: each compiles anew.
SHAPES = (Shape(3, 2, 2, 6), Shape(7, 4, 5, 12), Shape(5, 11, 12, 9))
SCALES = (Shape(2, 1, 2, 6), Shape(5, 2, 4, 9), Shape(11, 1, 3, 12))
PAPER = Shape(30, 30, 40, 2000)  # of Figure 2


def shape(key: int) -> Shape:
    """Of a factorisation."""
    return SHAPES[key % len(SHAPES)]


def curvature(problem, net, params):
    """The trace of the Hessian of the loss: that of every hidden unit, by autodiff, and the sum."""
    theta = net.predictor(params)

    def of_unit(unit):
        first = unit[0].size

        def loss(p):
            moved = jnp.outer(p[:first], p[first:]) - jnp.outer(*unit)
            return problem.loss(problem.as_predictor(theta + moved))

        return jnp.trace(jax.hessian(loss)(jnp.concatenate(unit)))

    units = params["W1"].T, params["W2"]
    return jnp.sum(jax.lax.map(of_unit, units, batch_size=UNITS_AT_ONCE))


def moments(problem, net, params):
    """Σx and Σε of fresh samples, kept with the run: a sweep does not keep its problems."""
    return {"x": jnp.asarray(problem.sigma_x), "eps": jnp.asarray(problem.sigma_eps)}


def once(problem, net, params, gradient, lr):
    """lr·C: with `twice` what any weight decay takes from each charge, 4γ·lr·C(1 − γ·lr)."""
    return {name: lr * s.charge(params) for name, s in net.symmetries().items()}


def twice(problem, net, params, gradient, lr):
    """lr²·C."""
    return {name: lr**2 * s.charge(params) for name, s in net.symmetries().items()}


def push(problem, net, params):
    """Tr Σ of one sample's gradient and the square of the mean gradient, by autodiff."""

    def single(x, y):
        def loss(p):
            return jnp.sum((net(p, x[None, :]).reshape(-1) - y) ** 2)

        return ravel_pytree(jax.grad(loss)(params))[0]

    each = jax.vmap(single)(jnp.asarray(problem.X), jnp.asarray(problem.labels))
    mean = each.mean(axis=0)
    return {
        "noise": jnp.sum((each - mean[None, :]) ** 2) / each.shape[0],
        "mean": jnp.sum(mean**2),
    }


PARAMS = {"params": observe.params}
EXACT = {
    **PARAMS,
    "drift": observe.charge_drift,
    "once": observe.running(once),
    "twice": observe.running(twice),
}
CURVED = {**PARAMS, "curvature": curvature}
PUSHED = {**PARAMS, "push": push}
# One record for all runs of the factorisation, so that they share their programs.
RECORD = {**EXACT, **CURVED}


def data(key: int, sizes: Shape | None = None, size: float = 1.0) -> Regression:
    """Data with labels that a linear map cannot fit: the noise of minibatches never dies.

    Inputs have `size`² times three as their square, whatever their number is.
    """
    d, k, _, n = shape(key) if sizes is None else sizes
    rng = generator(key, "equilibrium data")
    X = size * np.sqrt(3 / d) * rng.standard_normal((n, d))
    V = rng.standard_normal((k, d))
    return Regression.mean(X, X @ V.T + 0.7 * rng.standard_normal((n, k)))


def population(key: int, d: int = 3, k: int = 2, spread: float = 0.5) -> Population:
    """Fresh samples with inputs and label noise of different sizes in different directions."""
    rng = generator(key, "equilibrium population")
    axes = [np.linalg.qr(rng.standard_normal((m, m)))[0] for m in (d, k)]
    sizes = [np.exp(rng.uniform(-spread, spread, size=m)) for m in (d, k)]
    Sx, Se = ((Q * s) @ Q.T for Q, s in zip(axes, sizes, strict=True))
    return Population((Sx + Sx.T) / 2, rng.standard_normal((k, d)), (Se + Se.T) / 2)


def start(key: int, shapes: Mapping[str, tuple[int, ...]], *sizes: float) -> dict[str, np.ndarray]:
    """Random layers of these sizes."""
    rng = generator(key, "equilibrium start")
    given = zip(shapes.items(), sizes, strict=True)
    return {name: size * rng.standard_normal(shape) for (name, shape), size in given}


def pair(
    key: int,
    decay: float = DECAY,
    noise: Noise | None = BATCHES,
    sizes: Shape | None = None,
    **more: Any,
) -> Setup:
    """SGD on a factorisation, whose last layer starts larger."""
    d, k, h, n = shape(key) if sizes is None else sizes
    narrow = np.sqrt(2 / h)
    given = {
        "params": start(key, {"W1": (d, h), "W2": (h, k)}, 0.5 * narrow, 0.8 * narrow),
        "problem": data(key, Shape(d, k, h, n)),
        "net": TwoLayer(d=d, k=k, width=h),
        "dynamics": Descent(LR, noise, weight_decay=decay),
        "until": Until(steps=int(SAVES[-1])),
        "save_at": SAVES,
        "record": RECORD,
        **more,
    }
    return Setup(key=key, **given)


def of_paper(key: int, decay: float = DECAY) -> Setup:
    """The factorisation of Figure 2: a fixed sample, batches of ten, a few steps of it."""
    moves = Descent(0.01, Minibatch(10, replace=True), weight_decay=decay)
    params = start(key, {"W1": (PAPER.d, PAPER.h), "W2": (PAPER.h, PAPER.k)}, 0.15, 0.15)
    return pair(key, sizes=PAPER, dynamics=moves, params=params)


def scale(key: int, decay: float = DECAY, **more: Any) -> Setup:
    """SGD on a net whose outputs do not change when all weights grow together."""
    d, k, h, _ = sizes = SCALES[key % len(SCALES)]
    given = {
        "params": start(
            key, {"u": (k, h), "w": (h, d)}, np.sqrt(2 / (k * h)), np.sqrt(4 / (h * d))
        ),
        "problem": data(key, sizes),
        "net": NormalisedA(d=d, k=k, width=h),
        "record": PUSHED,
        **more,
    }
    return pair(key, decay, **given)


def path(data: xr.Dataset) -> list[dict[str, np.ndarray]]:
    """The parameters at every save of a run."""
    names = [str(n) for n in data if str(n).startswith("params_") and not str(n).endswith("_end")]
    values = {n.removeprefix("params_"): data[n].values for n in names}
    return [{n: v[i] for n, v in values.items()} for i in range(len(next(iter(values.values()))))]


def some(path: list[dict[str, np.ndarray]], most: int = 12) -> list[dict[str, np.ndarray]]:
    """The first, the last and some between: where each point takes gradients of all samples."""
    kept = np.unique(np.linspace(0, len(path) - 1, min(len(path), most)).astype(int))
    return [path[i] for i in kept]


def noisy_path(run: Run) -> list[dict[str, np.ndarray]]:
    """The saves up to where labels are so well fitted that rounding makes the minibatches' noise.

    The first save is always one of them.
    """
    problem = setup_of(run).problem
    net = setup_of(run).net
    states = path(run.data)
    if getattr(problem, "n", None) is None:
        return states
    losses = np.array([float(problem.net_loss(net, p)) for p in states])
    faded = np.flatnonzero(losses <= FADED * losses[0])
    return states[: max(int(faded[0]), 1)] if len(faded) else states


def layers(params: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """U and W of the column form."""
    return np.asarray(params["W2"]).T, np.asarray(params["W1"]).T


def rows(U: np.ndarray, W: np.ndarray) -> dict[str, np.ndarray]:
    """The parameters of the engine, from the column form."""
    return {"W1": np.array(W.T), "W2": np.array(U.T)}


def here(
    setup: Setup,
    params: Params,
    include_gd: bool | None = None,
    symmetries: Mapping[str, Symmetry] | None = None,
) -> dict[str, NoetherFlow]:
    """The flow of the net's charges at a point, from gradients of samples by autodiff."""
    return noether_flow(setup.replace(params=params), include_gd, symmetries)
