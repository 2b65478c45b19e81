"""What the figures of this paper share: data, starts, descent, and what is read off an end."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from ... import init, observe, problems, theory
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import LinearNet, Net, Rank1
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...numerics.types import PyTree
from ...plot import BLUE, ORANGE
from ...problems import Regression
from .._figure import Check, Settings

METHODS = ("GD", "SGD")
LOOKS: dict[str, dict[str, Any]] = {
    "GD": {"color": BLUE, "marker": "o", "ls": "none"},
    "SGD": {"color": ORANGE, "marker": "s", "ls": "none", "mfc": "none"},
}
LINES = {"GD": "-", "SGD": "--"}
MARKS = "o^sDv"
LEAST = r"$D(\theta(\infty),\,\theta^*_{\ell_2})$"
TRUE = r"$D(\theta(\infty),\,\theta^*)$"
SCALE = r"scale of the start, $\|\theta(0)\|$"
# Appendix A.1: 40 Gaussian samples of 100 features, 20 of which count.
SIZES: dict[str, Any] = {"n": 40, "d": 100, "informative": 20, "lr": 1e-3, "batch": 4}
LAYERS = 3  # L of the rank-1 nets
FACTORS = 2 * LAYERS - 1
AT_REST = 1e-20  # a loss at which a run is over
FITTED = 1e-16  # a loss at which its end is known well enough to be compared
MANY = 1000  # more than the seeds of any figure


def number(s: Settings, seed: int) -> int:
    """A key of its own for every data set of every figure key."""
    return MANY * s.key + seed


def data(s: Settings, seed: int = 0) -> Regression:
    """The regression of one seed."""
    return _data(s.n, s.d, s.informative, number(s, seed))


@functools.lru_cache(maxsize=64)
def _data(n: int, d: int, informative: int, key: int) -> Regression:
    return problems.gaussian(n, d, informative=informative, key=key)


def truth(s: Settings, seed: int = 0) -> np.ndarray:
    """The predictor that made the labels."""
    return problems.gaussian_teacher(s.d, informative=s.informative, key=number(s, seed))


def start(s: Settings, scale: float, seed: int = 0, direction: int = 0) -> np.ndarray:
    """θ(0): one random direction a seed, as long as asked."""
    rng = generator(number(s, seed) + MANY**2 * direction, "figures.rank1.start")
    vector = rng.standard_normal(s.d)
    return scale * vector / np.linalg.norm(vector)


def rank1(s: Settings) -> Rank1:
    """The paper's net; its width does not matter to the predictor."""
    return Rank1(s.d, LAYERS, s.d)


def balanced(s: Settings, net: LinearNet, scale: float, seed: int = 0) -> dict[str, np.ndarray]:
    """A balanced start."""
    return init.balanced(net, start(s, scale, seed), key=number(s, seed))


def descent(s: Settings, method: str) -> Descent:
    """GD, or SGD with rows drawn without replacement."""
    return Descent(s.lr, Minibatch(s.batch) if method == "SGD" else None)


def setup(
    s: Settings,
    net: Net,
    params: PyTree,
    method: str,
    seed: int = 0,
    draw: int = 0,
    **more: Any,
) -> Setup:
    """One run; `draw` tells the noise of members on the same data apart."""
    arguments = {
        "until": Until(steps=s.steps, gap=AT_REST),
        "record": {"loss": observe.loss, "theta": observe.theta},
        "save_at": [s.steps],
        **more,
    }
    key = number(s, seed) + MANY**2 * (draw + 1)
    return Setup(data(s, seed), net, params, descent(s, method), key=key, **arguments)


def distances(s: Settings, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """To the solution of least norm and to the truth; theta is (…, seed, d)."""
    least = np.stack([np.ravel(data(s, seed).min_norm) for seed in range(theta.shape[-2])])
    true = np.stack([truth(s, seed) for seed in range(theta.shape[-2])])
    return np.linalg.norm(theta - least, axis=-1), np.linalg.norm(theta - true, axis=-1)


def told(s: Settings, method: str, scale: float, seed: int, depth: int) -> np.ndarray:
    """The end point of GD or SGD from a balanced start by theory alone, to first order in lr."""
    rows = s.batch if method == "SGD" else s.n
    limit = theory.sgd_limit(data(s, seed), start(s, scale, seed), depth, s.lr, rows)
    return np.ravel(limit.theta)


def flow_end(s: Settings, scale: float, seed: int, depth: int) -> np.ndarray:
    """The end point of gradient flow from a balanced start."""
    return np.ravel(theory.balanced_limit(data(s, seed), start(s, scale, seed), depth).theta)


def grid(shape: tuple[int, ...], value: Callable[..., ArrayLike]) -> np.ndarray:
    """`value(i, j, …)` at every index."""
    return np.asarray([value(*index) for index in np.ndindex(shape)]).reshape(*shape, -1)


def save_steps(s: Settings, count: int) -> np.ndarray:
    """Steps spread over the run: 0, then in equal ratios."""
    steps = np.unique(np.round(np.geomspace(1, s.steps, count)).astype(int))
    return np.concatenate([[0], steps])


def flow_path(s: Settings, theta0: np.ndarray, depth: int, steps: np.ndarray) -> np.ndarray:
    """Gradient flow from a balanced start, (saves, d), at time k·lr after k steps."""
    problem = data(s)
    times = steps * s.lr

    def velocity(_: float, theta: np.ndarray) -> np.ndarray:
        return theory.balanced_velocity(problem, theta, depth)

    span = (0.0, float(times[-1]))
    way: Any = solve_ivp(velocity, span, theta0, "LSODA", times, rtol=1e-8, atol=1e-10)
    return way.y.T


def marked(number: int) -> dict[str, Any]:
    """A few markers on a line, so that lines can be told apart in grey."""
    return {"marker": MARKS[number % len(MARKS)], "markevery": (0.04 * number + 0.02, 0.22)}


def between(what: str, values: xr.DataArray, low: float, high: float) -> list[Check]:
    """All of them in an interval."""
    ends = {"least": float(values.min()), "largest": float(values.max())}
    return [Check(f"{what}, {word}", value, low, high) for word, value in ends.items()]
