"""A symmetry that a second term of the loss breaks: how its charge moves, and where it is held.

θ = (u, w) with ℓ1 = (uwx − y)² and ℓ2 = |θ − θ0|², which is a net with three outputs: uwx, and
√ζ(θ − θ0), which every sample wants to be zero.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import FunctionNet, general
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory.symmetry import approximate_flow
from .. import _shared_hypotheses as common
from .._erratum import Erratum
from .._hypothesis import Hypothesis, kind
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Ensemble, Theorem, Told
from . import _instances as cases
from ._facts import kappa, sgd
from ._measurements import CHANCE, along_paths, draws, mean
from ._noether_flow import FEW

N, ZETA, LR, MEMBERS = 8, 2.0, 0.02, 32
A = np.diag([1.0, -1.0])
LATE = np.arange(0, 8001, 20)


def outputs(params, X):
    """uwx, √ζ(u − u0), √ζ(w − w0); θ0 and ζ come with the inputs."""
    u, w = params["u"], params["w"]
    pull = X[:, 3] ** 0.5
    return jnp.stack([u * w * X[:, 0], pull * (u - X[:, 1]), pull * (w - X[:, 2])], axis=1)


NET = general(outputs, {"u": (), "w": ()})


def held(key: int, noise: Any = cases.BATCHES, off: bool = False) -> Setup:
    """A start at the common minimum of both terms, or away from it."""
    rng = generator(key, "equilibrium approximate")
    x, eps = rng.uniform(0.6, 1.6, size=N), rng.standard_normal(N)
    eps -= x * (x @ eps) / (x @ x)  # so that the least squares solution is u0·w0
    u0, w0 = rng.uniform(1.0, 1.4), rng.uniform(0.3, 0.5)
    X = np.stack([x, np.full(N, u0), np.full(N, w0), np.full(N, ZETA)], axis=1)
    Y = np.stack([u0 * w0 * x + 1.5 * eps, np.zeros(N), np.zeros(N)], axis=1)
    params = {"u": u0 + 0.5 * off, "w": w0 - 0.3 * off}
    until, problem = Until(steps=int(LATE[-1])), Regression.mean(X, Y)
    return Setup(problem, NET, params, Descent(LR, noise), until, cases.PARAMS, LATE, key)


def parts(setup: Setup) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and θ0 of a problem of this kind."""
    problem: Any = setup.problem
    return np.asarray(problem.X)[:, 0], np.asarray(problem.Y)[:, 0], np.asarray(problem.X)[0, 1:3]


def few(setup: Setup) -> Ensemble:
    """A few steps with many draws."""
    return draws(setup, MEMBERS, until=Until(steps=int(FEW[-1])), save_at=FEW)


def charges(data: Any) -> np.ndarray:
    """u² − w², (members, saves)."""
    return data["params_u"].values ** 2 - data["params_w"].values ** 2


def step_of(setup: Setup, u: float, w: float, zeta: float = ZETA) -> float:
    """The mean change of the charge in a step: Eq 20, and the term of a finite step."""
    x, y, theta0 = parts(setup)
    theta = np.array([u, w])
    single = 2 * (u * w * x - y) * x
    way = np.array([w, u])
    lr = common.learning_rate(setup)
    sigma = np.var(single) * np.outer(way, way)
    slope = 2 * (theta - theta0)
    mean = single.mean() * way + zeta * slope
    flow = approximate_flow(theta, A, slope, sigma, zeta, kappa(setup))
    return lr * (flow + lr * float(mean @ A @ mean))


def drift(setup: Setup, runs: Any, zeta: float = ZETA) -> Told:
    """The sum along every path, in the mean."""
    u, w = (runs["run"][f"params_{n}"].values[:, :-1] for n in "uw")
    told = np.asarray(
        [
            sum(step_of(setup, *point, zeta) for point in zip(*path, strict=True))
            for path in zip(u, w, strict=True)
        ]
    )
    first = np.array([u[0, 0], w[0, 0]]) - parts(setup)[2]
    size = 4 * ZETA * np.linalg.norm(first) * np.linalg.norm([u[0, 0], w[0, 0]])
    return along_paths("drift", told, common.learning_rate(setup) * u.shape[1] * float(size))


def seen_drift(runs: Any) -> dict[str, Any]:
    """C at the end − C at the start."""
    found = charges(runs["run"])
    return {"drift": mean(found[:, -1] - found[:, 0])}


def of_this_kind() -> list[Hypothesis]:
    """The net of the instances, with minibatches."""
    return [
        kind("the net is that of the instances", lambda s: s.net == NET),
        common.no_decay(),
        *sgd(),
    ]


def unpulled(setup: Setup, runs: Any) -> Told:
    """The same without the second term."""
    return drift(setup, runs, 0.0)


EQ20 = Theorem(
    "equilibrium.eq20",
    r"If $L = \ell_1+\zeta\ell_2$ and only $\ell_1$ has the symmetry, SGD moves the charge by "
    r"$\dot C = -2\zeta\,\nabla\ell_2^\top A\theta+\kappa\,\mathrm{Tr}[\Sigma A]$ and the term "
    r"of a "
    r"finite step: it rests where the two cancel.",
    of_this_kind(),
    drift,
    seen_drift,
    CHANCE,
    lambda key: held(key, off=True),
    [Control("the second term counts", lambda key: held(key, off=True), unpulled)],
    runs=few,
    nets=(FunctionNet,),
    needs=cases.PARAMS,
    given=("path",),
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (20)",
            r"$\dot C = -\zeta\nabla\ell_2^\top A\theta+\sigma^2\mathrm{Tr}[\Sigma A]$",
            r"that is for half the charge; with $\ell_2 = \|\theta\|^2$ it contradicts Eq (7) by 2",
            "convention",
        ),
    ),
    source=SOURCE,
    title="a charge with a broken symmetry",
)


THEOREMS = (EQ20,)
