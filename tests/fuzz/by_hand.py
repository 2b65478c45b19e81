"""The same runs in plain NumPy and SciPy, and how far rounding alone moves them."""

import math
from typing import NamedTuple

import numpy as np
import scipy.integrate

from reference import PREDICTORS, linear_gradient

from .draw import Case
from .rounding import DIGIT, Rounding, allowance

TWINS = 4
LEAST = 1e-213  # absolute tolerance of SciPy: what is smaller it does not know
MOST_SLOPES = 20_000  # of one integration: a second or two
HUGE = 1e8  # beyond this a run counts as on its way to infinity


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
    return _with_slack(case, lambda rounding: _steps(case, saves, rounding))


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


def _steps(case: Case, saves: list[int], rounding: Rounding | None) -> dict[str, np.ndarray] | None:
    kind, params = type(case.net).__name__, dict(case.params)
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
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
        grads = linear_gradient(kind, params, case.X[some], labels, scale)
        for name in params:
            drift = grads[name] + 2 * case.decay * params[name]
            velocity[name] = case.momentum * velocity[name] + drift
        params = {name: params[name] - case.lr * velocity[name] for name in params}
    return {name: np.stack([state[name] for state in kept]) for name in case.params}


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
