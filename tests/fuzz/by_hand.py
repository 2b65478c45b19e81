"""The same runs in plain NumPy and SciPy, and how far rounding alone moves them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate
import scipy.special

from reference import PREDICTORS, linear_gradient

from .draw import Case
from .rounding import DIGIT, Rounding, allowance

TWINS = 4
LEAST = 1e-213  # absolute tolerance of SciPy: what is smaller it does not know
MOST_SLOPES = 20_000  # of one integration: a second or two
HUGE = 1e8  # beyond this a run counts as on its way to infinity


Step = Callable[[Any, Any, Any, float, int], tuple[Any, Any]]


class NoReference(Exception):
    """SciPy gets nowhere: too stiff for an explicit method, or out of the range of its squares."""


class Path(NamedTuple):
    """States at the saved steps or times.

    Attributes:
        states: by name, with the saves in front.
        thetas: the predictors.
        terms: the size of what a predictor is the sum of: layers may cancel each other.
        slack: by name, how far rounding may move these.
    """

    states: dict[str, np.ndarray]
    thetas: np.ndarray
    terms: float
    slack: dict[str, np.ndarray]


def descent(case: Case, saves: list[int]) -> Path | None:
    """Steps by hand; None if they run away."""
    return optimiser(case, saves, _heavy_ball(case.momentum, case.decay))


def optimiser(
    case: Case, saves: list[int], step: Step, rho: float = 0.0, mixes: bool = False
) -> Path | None:
    """Steps of any optimiser by hand; None if they run away.

    Args:
        case: the problem, the start, batches and label noise; its momentum and decay do not count.
        saves: the steps whose states are kept.
        step: of one tensor: (p, g, memory, lr, k) to p and memory.
        rho: how far uphill the gradient is taken, as by SAM.
        mixes: does a step mix the entries of a gradient, as a singular value decomposition does?
            Then each of them is rounded by digits of the largest.
    """
    return _with_slack(case, lambda rounding: _steps(case, saves, rounding, step, rho, mixes))


def _heavy_ball(momentum: float, decay: float) -> Step:
    def step(p, g, v, lr, k):
        v = momentum * (0 if v is None else v) + g + 2 * decay * p
        return p - lr * v, v

    return step


def flow(case: Case, saves: list[float], rtol: float) -> Path:
    """Gradient flow by SciPy. It goes downhill, so it never runs away.

    Twins start as far away as an integrator of this tolerance may be off after a step.
    """

    def run(rounding: Rounding | None):
        return _integrated(case if rounding is None else _rounded(case, rounding), saves)

    path = _with_slack(case, run, rtol)
    if path is None:
        raise NoReference
    return path


def _with_slack(case: Case, run, size: float = DIGIT) -> Path | None:
    kind = type(case.net).__name__
    with np.errstate(all="ignore"):
        states = run(None)
        if states is None:
            return None
        slack = {name: np.zeros(()) for name in (*states, "theta")}
        thetas = _thetas(case, states)
        for seed in range(TWINS):
            other = run(Rounding(seed, size=size))
            if other is None:
                return None
            moved = {name: np.abs(other[name] - states[name]).max() for name in states}
            moved["theta"] = np.abs(_thetas(case, other) - thetas).max()
            slack = {name: np.maximum(slack[name], moved[name]) for name in slack}
        slack = {name: allowance(TWINS) * value for name, value in slack.items()}
    sizes = [np.abs(value).max(initial=0.0) for value in states.values()]
    powers = [
        value.shape[1] if value.ndim == 3 and kind == "Rank1" else 1 for value in states.values()
    ]
    terms = max(sizes) ** 2 if kind == "Diagonal" else math.prod(map(pow, sizes, powers))
    return Path(states, thetas, float(terms), slack)


def _rounded(case: Case, rounding: Rounding) -> Case:
    params = {name: rounding(name, value) for name, value in case.params.items()}
    return case._replace(X=rounding("X", case.X), Y=rounding("Y", case.Y), params=params)


def _thetas(case: Case, states: dict[str, np.ndarray]) -> np.ndarray:
    predictor = PREDICTORS[type(case.net).__name__][0]
    count = len(next(iter(states.values())))
    return np.stack([predictor({n: v[i] for n, v in states.items()}) for i in range(count)])


def _steps(
    case: Case, saves: list[int], rounding: Rounding | None, step: Step, rho: float, mixes: bool
) -> dict[str, np.ndarray] | None:
    params = dict(case.params)
    memory: dict[str, Any] = dict.fromkeys(params)
    rows, kept, exact = np.arange(len(case.X)), [], case
    for k in range(saves[-1] + 1):
        if k in saves:
            kept.append(params)
            if not all(np.abs(value).max(initial=0.0) < HUGE for value in params.values()):
                initial = max(np.abs(value).max(initial=0.0) for value in exact.params.values())
                if not initial >= HUGE or k > 0:
                    return None
        if k == saves[-1]:
            break
        if rounding is not None:
            case = _rounded(exact._replace(params=params), rounding)
            params = dict(case.params)
        some = rows if case.indices is None else case.indices[k]
        labels = case.Y[some] if case.noise is None else case.Y[some] + case.noise[k]
        scale = case.weight * len(case.X) / len(some)
        grads = _gradient(case, params, case.X[some], labels, scale)
        if rho:
            # hypot, since squares of what is tiny are zero
            length = math.hypot(*np.concatenate([g.ravel() for g in grads.values()])) or 1.0
            uphill = {n: p + rho * (grads[n] / length) for n, p in params.items()}
            grads = _gradient(case, uphill, case.X[some], labels, scale)
        if not all(np.all(np.isfinite(g)) for g in grads.values()):
            return None
        if rounding is not None and mixes:
            grads = {name: rounding.of_largest(name, g) for name, g in grads.items()}
        moved = {n: step(params[n], grads[n], memory[n], case.lr, k) for n in params}
        params = {name: p for name, (p, _) in moved.items()}
        memory = {name: m for name, (_, m) in moved.items()}
    return {name: np.stack([state[name] for state in kept]) for name in case.params}


def _gradient(case: Case, params, X, Y, scale: float) -> dict[str, np.ndarray]:
    """Of the mean squared error, or of the mean loss of a classifier."""
    kind = type(case.net).__name__
    if case.loss == "squared":
        return linear_gradient(kind, params, X, Y, scale)
    predictor, pull = PREDICTORS[kind]
    outputs = X @ predictor(params)
    if case.loss == "cross_entropy":
        residuals = scipy.special.softmax(outputs, axis=1) - Y
    elif case.loss == "logistic":
        residuals = -Y * scipy.special.expit(-Y * outputs)
    else:
        residuals = -Y * np.exp(-Y * outputs)
    return pull(params, scale * X.T @ residuals)


def _integrated(case: Case, saves: list[float]) -> dict[str, np.ndarray] | None:
    kind, names = type(case.net).__name__, list(case.params)
    sizes = [case.params[name].size for name in names]
    cuts, asked = np.cumsum(sizes)[:-1], 0

    def unpacked(y):
        parts = np.split(y, cuts)
        return {n: p.reshape(case.params[n].shape) for n, p in zip(names, parts, strict=True)}

    def slope(_, y):
        nonlocal asked
        asked += 1
        if asked > MOST_SLOPES:
            raise NoReference
        grads = linear_gradient(kind, unpacked(y), case.X, case.Y, case.weight)
        return -np.concatenate([grads[name].ravel() for name in names])

    start = np.concatenate([case.params[name].ravel() for name in names])
    least = np.abs(start[start != 0]).min(initial=1.0)
    done = scipy.integrate.solve_ivp(
        slope, (0, saves[-1]), start, "DOP853", saves, rtol=1e-12, atol=max(1e-13 * least, LEAST)
    )
    if not done.success or not np.abs(done.y).max() < HUGE:
        return None
    states = [unpacked(y) for y in done.y.T]
    return {name: np.stack([state[name] for state in states]) for name in names}
