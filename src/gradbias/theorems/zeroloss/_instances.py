"""Instances: one diagonal net, one tanh net, and what theorems ask of a setup.

Few shapes, because each one compiles: all diagonal nets have six inputs and three samples.
"""

import warnings
from collections.abc import Mapping
from typing import TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ... import observe
from ...dynamics import Dynamics, Flow
from ...nets import MLP, Diagonal, Net
from ...numerics.host_rng import generator
from ...numerics.precision import host
from ...numerics.types import PyTree
from ...problems import Regression
from ...theory import diagonal, manifold
from ..prelude import Hypothesis, Setup, Until, common, fact, kind

D = 6
N = 3
DIAGONAL = Diagonal(D)
TANH = MLP((1, 3, 1), "tanh")
TIMES = np.concatenate([[0.0], np.geomspace(1e-2, 1e3, 23)])
TIGHT = Flow(rtol=1e-12, atol=1e-14)
DENSE = 1000  # parameters up to which a Hessian is formed
ARRIVED = 1e-6  # of the loss at the start: a gap at which a flow may be told to stop
MOST = 40  # parameters up to which flows are differentiated by differences


def slope(problem, net, params):
    """‖∇L‖²."""
    pull = jax.grad(lambda p: problem.net_loss(net, p))(params)
    return sum(jnp.sum(g * g) for g in jax.tree.leaves(pull))


# One record for all flows, so that they share their programs.
RECORD = {"loss": observe.loss, "params": observe.params, "slope": slope}


class FlowOptions(TypedDict, total=False):
    """What a flow may have of its own."""

    dynamics: Dynamics
    time: float


def flow(
    problem: Regression,
    net: Net,
    params: Mapping[str, np.ndarray],
    key: int,
    dynamics: Dynamics = TIGHT,
    time: float = float(TIMES[-1]),
) -> Setup:
    """Gradient flow to its end; with a small `time`, one that is stopped on the way."""
    stopped = time < TIMES[-1]
    until = Until(time=time) if stopped else Until(gap=1e-28, time=float(TIMES[-1]))
    saves = TIMES * (min(time, TIMES[-1]) / TIMES[-1])
    return Setup(problem, net, params, dynamics, until=until, record=RECORD, save_at=saves, key=key)


def regression(key: int, n: int = N, nonzero: int = 2) -> Regression:
    """Gaussian data of a sparse teacher, none of its columns small."""
    rng = generator(key, "zeroloss data")
    while True:
        X = rng.standard_normal((n, D))
        sizes = np.linalg.svd(X, compute_uv=False)
        if sizes[-1] > 0.8 and np.sum(X**2, axis=0).min() > 0.5 * n / N:
            break
    teacher = np.zeros(D)
    teacher[rng.choice(D, nonzero, replace=False)] = rng.choice([-1.0, 1.0], nonzero)
    return Regression.half_mean(X, X @ teacher)


def start(key: int) -> dict[str, np.ndarray]:
    """Halves of different sizes, away from zero."""
    rng = generator(key, "zeroloss start")
    return {name: rng.uniform(0.5, 1.0, D) for name in ("u", "v")}


def diagonal_flow(
    key: int,
    problem: Regression | None = None,
    params: Mapping[str, np.ndarray] | None = None,
    **options: Unpack[FlowOptions],
) -> Setup:
    """A diagonal net."""
    data = regression(key) if problem is None else problem
    return flow(data, DIAGONAL, start(key) if params is None else params, key, **options)


def tanh_flow(key: int, doubled: bool = False, **options: Unpack[FlowOptions]) -> Setup:
    """A tanh net on three points, with labels not far from what it starts with.

    `doubled` makes two of the points one, so that their gradients depend on each other.
    """
    rng = generator(key, "zeroloss tanh")
    X = np.array([-1.5, -1.5 if doubled else 0.2, 1.4]) + 0.1 * rng.standard_normal(N) * (
        not doubled
    )
    while True:
        params = {
            "W1": rng.standard_normal((1, 3)),
            "b1": 0.5 * rng.standard_normal(3),
            "W2": rng.standard_normal((3, 1)),
            "b2": 0.3 * rng.standard_normal(1),
        }
        hidden = np.tanh(X[:, None] @ params["W1"] + params["b1"])
        bend = (1 - hidden**2) * params["W2"].T
        J = np.hstack([X[:, None] * bend, bend, hidden, np.ones((N, 1))])
        sizes = np.linalg.svd(J, compute_uv=False)
        if sizes[1 if doubled else 2] > 0.25 * sizes[0]:
            break
    away = np.repeat(0.4, N) if doubled else rng.uniform(0.2, 0.5, N) * rng.choice([-1, 1], N)
    labels = hidden @ params["W2"] + params["b2"] + away[:, None]
    problem = Regression.half_mean(X[:, None], labels)
    return flow(problem, TANH, params, key, **options)


def flat(tree: PyTree) -> np.ndarray:
    """A PyTree as one vector, in the order of `ravel_pytree`."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@fact
def size(setup: Setup) -> int:
    """The number of parameters."""
    return len(flat(setup.params))


def residual(setup: Setup) -> manifold.Residuals:
    """The residual with L = ½‖residual‖²."""
    return manifold.residuals(common.regression(setup), setup.net)


@fact
def end(setup: Setup) -> manifold.LimitPoint:
    """Φ of the start, as the theory finds it: `.x` and `.info`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `.info` says the same, and hypotheses read it
        return manifold.limit_point(setup.params, residual=residual(setup))


@host
def jacobian(setup: Setup, x: PyTree) -> np.ndarray:
    """J of the scaled residual, by autodiff, (n, D)."""
    vector, unravel = ravel_pytree(x)
    scaled = residual(setup)
    return np.asarray(jax.jacrev(lambda p: scaled(unravel(p)))(vector))


@fact
def spectrum(setup: Setup) -> np.ndarray:
    """The singular values of J at the end of the flow, the largest first."""
    return np.linalg.svd(jacobian(setup, end(setup).x), compute_uv=False)


def directions(setup: Setup, count: int = 3) -> np.ndarray:
    """Random unit vectors, (D, count): the factor of a noise covariance."""
    drawn = generator(setup.key, "zeroloss directions").standard_normal((size(setup), count))
    return drawn / np.linalg.norm(drawn, axis=0)


def _distance(setup: Setup) -> float:
    info = end(setup).info
    return info.distance / float(np.linalg.norm(flat(end(setup).x))) if info.converged else np.nan


def few_parameters() -> Hypothesis:
    """So few parameters that the flow can be differentiated by differences."""
    return Hypothesis(f"there are at most {MOST} parameters", size, MOST)


def dense() -> Hypothesis:
    """So few parameters that their Hessian can be formed."""
    return Hypothesis(f"there are at most {DENSE} parameters", size, DENSE)


def reaches() -> Hypothesis:
    """Assumption 3.2."""
    return Hypothesis("gradient flow reaches the manifold of minimisers", _distance, 1e-8)


def arrives() -> Hypothesis:
    """The run is not told to stop on the way: where it ends the loss is (nearly) least."""

    def left(setup: Setup) -> float:
        gap = setup.until.gap
        return float(gap) / loss_at_start(setup) if gap is not None else np.inf

    return Hypothesis("the run ends on the manifold", left, ARRIVED)


@fact
def loss_at_start(setup: Setup) -> float:
    """L of the start; 1 where that is nothing, because there is no way to go."""
    return float(np.sum(np.square(residual(setup)(setup.params)))) / 2 or 1.0


def constant_rank() -> Hypothesis:
    """Assumption 3.1, as a point can show it: the spectrum of the Hessian has a gap."""
    name = "non-zero eigenvalues of the Hessian stay away from zero"
    return Hypothesis(name, lambda s: 1 / end(s).info.gap if end(s).info.gap > 0 else np.nan, 0.01)


def on_manifold() -> list[Hypothesis]:
    """What every statement at a point of the manifold needs."""
    return [common.no_decay(), arrives(), few_parameters(), reaches(), constant_rank()]


def quiet() -> Hypothesis:
    """Steps see the loss as it is."""
    return kind("there is no noise", lambda s: getattr(s.dynamics, "noise", None) is None)


def start_without_zeros() -> Hypothesis:
    """No coordinate of u or v is zero: the open set U of the paper."""

    def zeros(setup: Setup) -> float:
        return float(np.sum(setup.params["u"] == 0) + np.sum(setup.params["v"] == 0))

    return Hypothesis("no coordinate of u or v starts at zero", zeros, 0.0)


def fitted() -> Hypothesis:
    """The labels can be fitted."""

    def excess(setup: Setup) -> float:
        problem = common.regression(setup)
        scale = float(problem.loss(np.zeros(problem.d)))
        return float(problem.min_loss) / scale if scale > 0 else 0.0

    return Hypothesis("the labels can be fitted", excess, common.FITS)


@fact
def diagonal_end(setup: Setup) -> diagonal.DiagonalLimit:
    """Φ of the start of a diagonal net, in closed form."""
    return diagonal.limit(common.regression(setup), setup.params)
